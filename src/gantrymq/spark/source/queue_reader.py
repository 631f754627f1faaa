"""What reading needs of a connection to the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol

from gantrymq.client.consuming.filters import EVERYTHING, Filter
from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.route import TopicRoute


class Pulled(Protocol):
    """A pull answer (``gantrymq.client.results.RawPull``)."""

    @property
    def status(self) -> Enum:
        """FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL."""

    @property
    def data(self) -> bytes:
        """The records, one after the other, as the broker sent them."""

    @property
    def next_offset(self) -> int: ...

    @property
    def min_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...


class QueueReader(Protocol):
    """The methods of a pull consumer that reading needs. Every call may raise GantryError; ``retryable`` tells whether
    the call may succeed later."""

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """All readable queues of a topic."""

    def known_route(self, topic: str) -> TopicRoute | None:
        """What this process knows of the brokers of a topic, without asking anybody."""

    def introduce(self, topic: str, route: TopicRoute) -> None:
        """Take over what another process knows of the brokers of a topic, unless this one knows the topic."""

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """The offset of the oldest message of each queue."""

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """The offset after the last message of each queue."""

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at ``timestamp_ms`` or later; without one, the end of the queue."""

    def pull_raw(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter = EVERYTHING
    ) -> Pulled:
        """Messages from ``offset`` on, undecoded. Of a tag expression the broker compares hashes only."""

    def pull_raw_each(
        self, wanted: Sequence[tuple[MessageQueue, int, int]], max_bytes: int, selection: Filter = EVERYTHING
    ) -> Sequence[Pulled | GantryError]:
        """``pull_raw`` of several queues at the same time, each given with its offset and its ``max_count``."""

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the progress of the reader's group."""


class TopicLister(Protocol):
    def topics(self) -> Sequence[str]:
        """Names of all topics that the name servers know."""
