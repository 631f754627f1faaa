"""A broker in a dict, with the reading calls of a pull consumer, and time that does not pass by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gantrymq.client.consuming.filters import EVERYTHING, Filter
from gantrymq.errors import GantryError, RouteNotFound, Unreachable
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.stored_message import pack_host
from gantrymq.spark.options.access import Access
from tests.support.records import encode_record

HOST = pack_host("127.0.0.1:10911")
START_MS = 1_767_225_600_000


class Status(Enum):
    FOUND = 0
    NO_NEW_MSG = 1
    NO_MATCHED_MSG = 2
    OFFSET_ILLEGAL = 3


@dataclass(frozen=True)
class Answer:
    status: Status
    data: bytes
    next_offset: int
    min_offset: int
    max_offset: int


def make_record(queue: MessageQueue, offset: int, body: bytes = b"", properties: str = "") -> bytes:
    return encode_record(
        queue.topic.encode(), body or b"body %d" % offset, properties.encode(), queue.queue_id, offset,
        offset * 100, START_MS + offset, HOST, START_MS + offset, HOST,
    )  # fmt: skip


@dataclass
class FakeBroker:
    """Queues with records. ``refusals``: errors that the next calls meet, one each."""

    answers_at_most: int = 32
    logs: dict[MessageQueue, dict[int, bytes]] = field(default_factory=dict)
    minimum: dict[MessageQueue, int] = field(default_factory=dict)
    refusals: list[GantryError] = field(default_factory=list)
    committed: dict[MessageQueue, int] = field(default_factory=dict)
    pulls: int = 0

    def fill(self, queue: MessageQueue, count: int) -> None:
        log = self.logs.setdefault(queue, {})
        begin = self.max_offset(queue)
        log.update({offset: make_record(queue, offset) for offset in range(begin, begin + count)})

    def append(self, queue: MessageQueue, body: bytes) -> None:
        log = self.logs.setdefault(queue, {})
        end = self.max_offset(queue)
        log[end] = make_record(queue, end, body)

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        self._refuse()
        found = [queue for queue in self.logs if queue.topic == topic]
        if not found:
            raise RouteNotFound(topic, "no such topic")
        return found

    def known_route(self, topic: str) -> TopicRoute | None:
        return None

    def introduce(self, topic: str, route: TopicRoute) -> None:
        """This broker needs no address."""

    def topics(self) -> Sequence[str]:
        self._refuse()
        return sorted({queue.topic for queue in self.logs})

    def min_offset(self, queue: MessageQueue) -> int:
        self._refuse()
        return self.minimum.get(queue, 0)

    def max_offset(self, queue: MessageQueue) -> int:
        self._refuse()
        return max(self.logs[queue], default=-1) + 1

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        return {queue: QueueOffset(self.min_offset(queue)) for queue in queues}

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        return {queue: QueueOffset(self.max_offset(queue)) for queue in queues}

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        self._refuse()
        return min(max(timestamp_ms - START_MS, self.min_offset(queue)), self.max_offset(queue))

    def pull_raw(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter = EVERYTHING
    ) -> Answer:
        self.pulls += 1
        self._refuse()
        low, high = self.min_offset(queue), self.max_offset(queue)
        if offset < low:
            return Answer(Status.OFFSET_ILLEGAL, b"", low, low, high)
        if offset >= high:
            status = Status.NO_NEW_MSG if offset == high else Status.OFFSET_ILLEGAL
            return Answer(status, b"", high, low, high)
        end = min(offset + min(max_count, self.answers_at_most), high)
        data = b"".join(self.logs[queue][at] for at in range(offset, end) if at in self.logs[queue])
        return Answer(Status.FOUND if data else Status.NO_MATCHED_MSG, data, end, low, high)

    def pull_raw_each(
        self, wanted: Sequence[tuple[MessageQueue, int, int]], max_bytes: int, selection: Filter = EVERYTHING
    ) -> list[Answer | GantryError]:
        found: list[Answer | GantryError] = []
        for queue, offset, max_count in wanted:
            try:
                found.append(self.pull_raw(queue, offset, max_count, max_bytes, selection))
            except GantryError as error:
                found.append(error)
        return found

    def commit(self, queue: MessageQueue, offset: int) -> None:
        self._refuse()
        self.committed[queue] = offset

    def reader(self, name_servers: str, access: Access, group: str | None = None) -> FakeBroker:
        return self

    def lister(self, name_servers: str, access: Access) -> FakeBroker:
        return self


class SteppedClock:
    """Monotonic time that advances only in calls that block."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def block(self, seconds: float) -> None:
        self.now += seconds


def away(times: int) -> list[GantryError]:
    """What a reader meets while a broker is down."""
    return [Unreachable("127.0.0.1:10911", "connection refused") for _ in range(times)]
