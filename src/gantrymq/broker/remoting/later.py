"""Answers that are given after their handler has returned."""

from __future__ import annotations

from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.command import Command


def answer_later(session: ClientSession, command: Command, frame: bytes) -> None:
    """Send the answer to a request; nobody waits for the answer to a one-way one."""
    if not command.is_one_way:
        session.send(frame)
