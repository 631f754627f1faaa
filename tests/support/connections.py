"""Connections without sockets, which record what the broker sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gantrymq.protocol.hosts import pack_host


class FakeLink:
    """A connection in memory."""

    peer = local = "192.0.2.1:1"
    unsent = 0

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass(eq=False)
class KeptConnection:
    """A ``broker.client.Connection`` of a client that does nothing by itself.

    ``notices``: the notifications in order. ``questions``: the question and ``done`` of each unanswered question.
    """

    id: int = 1
    alive: bool = True
    writable: bool = True
    protocol: str = "remoting"
    user: Any = None
    notices: list[Any] = field(default_factory=list)
    questions: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"10.0.0.1:{4000 + self.id}"

    @property
    def host(self) -> bytes:
        return pack_host(self.address)

    def members_changed(self, group: str) -> None:
        self.notices.append(group)

    def reset_offsets(self, reset: Any) -> None:
        self.notices.append(reset)

    def running_info(self, question: Any, seconds: float, done: Any) -> None:
        self.questions.append((question, done))

    def consume_directly(self, question: Any, seconds: float, done: Any) -> None:
        self.questions.append((question, done))

    def positions(self, group: str, topic: str, seconds: float, done: Any) -> None:
        self.questions.append(((group, topic), done))

    def hand_reply(self, reply: Any, seconds: float, done: Any) -> None:
        self.questions.append((reply, done))
