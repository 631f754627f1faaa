"""Readers of a namespace: the query sees plain topic names, and the wire carries ``namespace%topic``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gantrymq.client.connection.namespaces import SEPARATOR, with_namespace, without_namespace
from gantrymq.client.consuming.filters import EVERYTHING, Filter
from gantrymq.message.queues import MessageQueue

if TYPE_CHECKING:
    from gantrymq.spark.connections import Pulled, QueueReader, TopicLister


class NamespaceReader:
    """A reader whose queues have plain names. ``inner`` puts the namespace before the name of a topic itself."""

    def __init__(self, inner: QueueReader, namespace: str) -> None:
        self._inner = inner
        self._namespace = namespace

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        found = self._inner.queues(topic)
        return [replace(queue, topic=without_namespace(self._namespace, queue.topic)) for queue in found]

    def min_offset(self, queue: MessageQueue) -> int:
        return self._inner.min_offset(self._on_wire(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        return self._inner.max_offset(self._on_wire(queue))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return self._inner.offset_by_time(self._on_wire(queue), timestamp_ms)

    def pull_raw(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter = EVERYTHING
    ) -> Pulled:
        return self._inner.pull_raw(self._on_wire(queue), offset, max_count, max_bytes, selection)

    def commit(self, queue: MessageQueue, offset: int) -> None:
        self._inner.commit(self._on_wire(queue), offset)

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
