"""What the tests of our own client share: names, waiting, a listener that keeps what it gets."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import gantrymq
import gantrymq.aio
from gantrymq import ConsumeStatus, Message, MessageView
from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster

Server = GantryCluster | ApacheCluster
LIMIT_S = 60.0
SOON: dict[str, Any] = {"rebalance_interval_ms": 1_000, "call_timeout_ms": 10_000}
"""Members notice one another soon, and nobody minds a machine that is busy."""
PATIENT: dict[str, Any] = {"send_timeout_ms": 20_000, "call_timeout_ms": 10_000}


def until(condition: Callable[[], Any], what: object = "", seconds: float = LIMIT_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what() if callable(what) else what}"
        time.sleep(0.02)


RUN = secrets.token_hex(2)
"""Part of every name, so that a server that is still running from before can be used, too."""


def make_topic(server: Server, name: str, queues: int = 4, message_type: str | None = None) -> str:
    """A topic of the test's own. Apache's 4.x brokers know no message types."""
    topic = f"{name}_{RUN}"
    with gantrymq.Admin(server.name_servers, call_timeout_ms=10_000) as admin:
        admin.create_topic(topic, queues, message_type if server.version != "4.9.7" else None)
    return topic


def send_all(server: Server, topic: str, bodies: Iterable[str], **of_message: Any) -> None:
    with gantrymq.Producer(f"P{topic}", name_servers=server.name_servers, **PATIENT) as producer:
        for body in bodies:
            producer.send(Message(topic, body, **of_message))


def recorded(server: Server, word: str, trace_topic: str) -> list[tuple[str, str, bool | None]]:
    """What clients recorded of a message: the step, the group, and how it ended."""

    async def ask() -> list[tuple[str, str, bool | None]]:
        async with gantrymq.aio.Admin(server.name_servers, call_timeout_ms=10_000) as admin:
            found = await admin.traces.of(word, trace_topic)
        assert not found.unreadable
        return [(str(step.happened), step.group, step.good) for step in found.steps]

    return asyncio.run(ask())


class Inbox:
    """A listener; ``answer`` is asked for each batch, and may raise."""

    def __init__(self, answer: Callable[[MessageView], Any] | None = None) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.views: list[MessageView] = []
        self.times: list[float] = []

    def __call__(self, messages: list[MessageView]) -> Any:
        with self._lock:
            for view in messages:
                self.views.append(view)
                self.times.append(time.monotonic())
        return self._answer(messages[0]) if self._answer is not None else ConsumeStatus.CONSUME_SUCCESS

    @property
    def bodies(self) -> list[str]:
        with self._lock:
            return [view.body.decode() for view in self.views]

    def wait(self, expected: Iterable[str], seconds: float = LIMIT_S) -> None:
        """Until every one of ``expected`` has come."""
        wanted = set(expected)
        until(lambda: wanted <= set(self.bodies), lambda: f"missing {sorted(wanted - set(self.bodies))[:5]}", seconds)
