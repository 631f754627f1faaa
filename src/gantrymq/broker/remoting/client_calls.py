"""Requests that the broker sends to a client: 221, 307, 309, 326. Source: Broker2Client, ReplyMessageProcessor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, Header, encode_request
from gantrymq.remoting.session import Session
from gantrymq.runtime.clock import Clock, Timer

MAX_OUTSTANDING: Final = 1_000
"""Answers that are waited for, from all clients together."""

Answered = Callable[[Command | None], None]
"""Called once, with the client's answer, or with None when it did not come."""


@dataclass(slots=True, eq=False)
class _Call:
    answered: Answered
    timer: Timer | None = None


class ClientCalls:
    """Pairs what clients answer with what they were asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: dict[tuple[int, int], _Call] = {}
        """By session and opaque."""

    def ask(
        self,
        session: Session,
        code: RequestCode,
        header: Header,
        answered: Answered,
        body: bytes = b"",
        *,
        seconds: float,
    ) -> None:
        """Send a request to the client, which has so many seconds for its answer. A client that is gone, or that
        does not read, is not waited for.
        """
        if not session.alive or not session.writable or len(self._calls) >= MAX_OUTSTANDING:
            answered(None)
            return
        opaque = session.next_opaque()
        call = self._calls[session.id, opaque] = _Call(answered)
        call.timer = self._clock.call_later(seconds, lambda: self._end((session.id, opaque), None))
        session.send(encode_request(code, opaque, header, body))

    def answer(self, session: Session, command: Command) -> None:
        """A client sent an answer. An answer for which no caller waits is dropped."""
        self._end((session.id, command.opaque), command)

    def client_gone(self, client: Client) -> None:
        """A connection ended: what was asked there is not answered."""
        for key in [key for key in self._calls if key[0] == client.id]:
            self._end(key, None)

    def _end(self, key: tuple[int, int], command: Command | None) -> None:
        call = self._calls.pop(key, None)
        if call is None:
            return
        if call.timer is not None:
            call.timer.cancel()
        call.answered(command)
