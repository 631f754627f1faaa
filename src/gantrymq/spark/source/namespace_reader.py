"""Readers of a namespace: the query sees plain topic names, and the wire carries ``namespace%topic``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from gantrymq.client.connection.namespaces import SEPARATOR, with_namespace, without_namespace
from gantrymq.client.consuming.filters import EVERYTHING, Filter
from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.spark.source.queue_reader import Pulled, QueueReader, TopicLister

_Ask: TypeAlias = Callable[[Iterable[MessageQueue]], dict[MessageQueue, QueueOffset]]


class NamespaceReader:
    """A reader whose queues have plain names. ``inner`` puts the namespace before the name of a topic itself."""

    def __init__(self, inner: QueueReader, namespace: str) -> None:
        self._inner = inner
        self._namespace = namespace

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        found = self._inner.queues(topic)
        return [replace(queue, topic=without_namespace(self._namespace, queue.topic)) for queue in found]

    def known_route(self, topic: str) -> TopicRoute | None:
        return self._inner.known_route(topic)

    def introduce(self, topic: str, route: TopicRoute) -> None:
        self._inner.introduce(topic, route)

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        return self._of_all(self._inner.min_offsets, queues)

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        return self._of_all(self._inner.max_offsets, queues)

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return self._inner.offset_by_time(self._on_wire(queue), timestamp_ms)

    def pull_raw(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter = EVERYTHING
    ) -> Pulled:
        return self._inner.pull_raw(self._on_wire(queue), offset, max_count, max_bytes, selection)

    def pull_raw_each(
        self, wanted: Sequence[tuple[MessageQueue, int, int]], max_bytes: int, selection: Filter = EVERYTHING
    ) -> Sequence[Pulled | GantryError]:
        on_wire = [(self._on_wire(queue), offset, max_count) for queue, offset, max_count in wanted]
        return self._inner.pull_raw_each(on_wire, max_bytes, selection)

    def commit(self, queue: MessageQueue, offset: int) -> None:
        self._inner.commit(self._on_wire(queue), offset)

    def _of_all(self, ask: _Ask, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        plain = {self._on_wire(queue): queue for queue in queues}
        return {plain[queue]: offset for queue, offset in ask(plain).items()}

    def _on_wire(self, queue: MessageQueue) -> MessageQueue:
        return replace(queue, topic=with_namespace(self._namespace, queue.topic))


class NamespaceTopics:
    """The topics of a namespace, by their plain names."""

    def __init__(self, inner: TopicLister, namespace: str) -> None:
        self._inner = inner
        self._namespace = namespace

    def topics(self) -> Sequence[str]:
        prefix = self._namespace + SEPARATOR
        return [topic.removeprefix(prefix) for topic in self._inner.topics() if topic.startswith(prefix)]
