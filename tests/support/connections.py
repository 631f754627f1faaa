"""A connection without sockets, which records what the broker sends, for tests of the broker's operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gantrymq.protocol.hosts import pack_host


@dataclass(eq=False)
class KeptConnection:
    """A ``broker.client.Connection`` of a client that does nothing by itself.

    ``notices``: the notifications in order. ``questions``: the question and ``done`` of each unanswered question.
    """

    id: int = 1
    alive: bool = True
    writable: bool = True
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
