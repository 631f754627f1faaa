"""Reads and makes the topics of the sink while brokers restart, or are away for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.client.results import PullResult
from gantrymq.errors import RouteNotFound
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.patience import Patience

if TYPE_CHECKING:
    from gantrymq.spark.sink.ledger import Reader, Writer


class PatientReader:
    """A reader whose calls are repeated as ``Patience`` allows, except the question for a topic that does not exist."""

    def __init__(self, reader: Reader, patience: Patience) -> None:
        self._reader = reader
        self._patience = patience

    def queues(self, topic: str) -> list[MessageQueue]:
        """Raises RouteNotFound at once: the topic may have to be made."""

        def ask() -> list[MessageQueue] | RouteNotFound:
            try:
                return self._reader.queues(topic)
            except RouteNotFound as error:
                return error

        found = self._patience.call(f"looking up the topic {topic}", ask)
        if isinstance(found, RouteNotFound):
            raise found
        return found

    def pull(self, queue: MessageQueue, offset: int, max_count: int = 32) -> PullResult:
        return self._patience.call(f"reading {queue}", lambda: self._reader.pull(queue, offset, max_count))

    def min_offset(self, queue: MessageQueue) -> int:
        return self._patience.call(f"asking for the beginning of {queue}", lambda: self._reader.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        return self._patience.call(f"asking for the end of {queue}", lambda: self._reader.max_offset(queue))


class PatientWriter:
    """A writer that makes topics as ``Patience`` allows. Its appends have a patience of their own."""

    def __init__(self, writer: Writer, patience: Patience) -> None:
        self._writer = writer
        self._patience = patience

    def append(self, queue: MessageQueue, message: Message) -> int:
        return self._writer.append(queue, message)

    def make_topic(self, topic: str) -> None:
        self._patience.call(f"making the topic {topic}", lambda: self._writer.make_topic(topic))
