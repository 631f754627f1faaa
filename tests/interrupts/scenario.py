"""What is interrupted, and what must hold afterwards.

``act`` is what a program does when an interrupt comes. ``settle`` is what the same program does next; it looks at what
the interrupt left behind. ``finish`` judges at the end everything that all acts together have sent, committed or
processed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import gantrymq
from gantrymq import ConsumeFromWhere, LocalTransactionState, Message
from tests.interrupts.server import Server

WAIT_S: Final = 20.0
"""What must happen happens within this time; a broken call would never end."""
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
FIRST: Final = ConsumeFromWhere.FIRST_OFFSET


class Broken(Exception):
    """Something does not hold."""


def until(holds: Callable[[], Any], what: str) -> None:
    """Wait for something; raises Broken."""
    pause, over = threading.Event(), time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > over:
            break
        pause.wait(0.002)
    else:
        return
    raise Broken(f"{what}: not within {WAIT_S:.0f} s")


def portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gantrymq-portal"]


class Scenario:
    """A long-lived producer, and one call on it."""

    name = "Producer.send"

    def __init__(self, server: Server) -> None:
        self.server = server
        self.topic = "T-" + re.sub(r"\W+", "-", self.name)
        self.done = 0
        """Acts that were not interrupted."""

    def open(self) -> None:
        self.producer = self.client()
        self.producer.start()
        self.producer.send(Message(self.topic, b"first"))

    def reopen(self) -> None:
        """The handler has closed the producer."""
        self.producer = self.client()
        self.producer.start()

    def client(self) -> gantrymq.Producer:
        return gantrymq.Producer("pg", name_servers=self.server.address)

    def act(self) -> None:
        self.producer.send(Message(self.topic, b"x"))
        self.done += 1

    def settle(self) -> None:
        if self.producer._closed:
            self.reopen()
        self.producer.send(Message(self.topic, b"next"))
        idle(self.producer)

    def finish(self) -> None:
        self.producer.close()


def idle(producer: gantrymq.Producer) -> None:
    """Nothing of an interrupted call is left: not on the loop, not in what ``close`` would wait for."""
    until(lambda: producer._client._idle(), "no send is in flight")
    door = producer._portal
    until(lambda: door is None or not door._calls, "no call is left on the loop")
