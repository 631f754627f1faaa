"""The control topic: decisions about batches, durable and in one order. And the topic of places, see ``sink.places``.

``insert`` is *insert if absent*: it appends a record and reads the queue up to it. What ``ControlState`` makes of the
records is the same for every process that reads them, so a record that comes second has no effect, even when it comes
from a driver that Spark has replaced and that is still alive.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Protocol

import msgspec

from gantrymq.client.results import PullResult
from gantrymq.errors import ConfigError, RouteNotFound
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.clock import SystemClock
from gantrymq.spark.sink.ids import BatchId
from gantrymq.spark.sink.places import Piece, decode_piece, encode_piece
from gantrymq.spark.sink.rules import ControlRecord, ControlState, Pieces, decode_record, encode_record

log = logging.getLogger("gantrymq.spark")

TOPIC_TIMEOUT_S: Final = 15.0
"""How long a new topic may take until the name servers know it."""
_ASK_EVERY_S: Final = 0.02
_PULL_COUNT: Final = 1_000


class SinkTopicMissing(ConfigError):
    """No name server knows a topic that the sink has used before."""

    what_to_do = "Create the topic again with `gantry topic create`, or use a new checkpoint."


class Reader(Protocol):
    """A pull consumer (``gantrymq.PullConsumer``)."""

    def queues(self, topic: str) -> list[MessageQueue]: ...

    def pull(self, queue: MessageQueue, offset: int, max_count: int = 32) -> PullResult: ...

    def min_offset(self, queue: MessageQueue) -> int: ...

    def max_offset(self, queue: MessageQueue) -> int: ...


class Writer(Protocol):
    """A Committer, for threads."""

    def append(self, queue: MessageQueue, message: Message) -> int:
        """The queue offset at which the message is stored."""

    def make_topic(self, topic: str) -> None: ...


class Ledger:
    """The two topics of one producer group. May be used from several threads.

    They are made only where nothing can have been written to them (``make``). Elsewhere a topic that no name server
    knows has its broker away, and a second one on another broker would contradict it when it is back.
    """

    def __init__(self, group: str, reader: Reader, writer: Writer, missing_s: float) -> None:
        """``missing_s``: how long a topic may be unknown that was there before."""
        self.decisions_topic: Final = f"{group}-decisions"
        self.places_topic: Final = f"{group}-places"
        self._reader = reader
        self._writer = writer
        self._missing_s = missing_s
        self._state = ControlState()
        self._next: int | None = None
        """The offset of the first record that was not read yet."""
        self._queues: dict[str, MessageQueue] = {}
        self._lock = threading.Lock()

    def refresh(self, *, make: bool = False) -> ControlState:
        """Everything that is in the control topic now. Raises ConfigError when it was deleted since this process read
        it, and SinkTopicMissing."""
        with self._lock:
            queue = self._queue(self.decisions_topic, make)
            if make:  # both at the same time: the first batch of a query may have no rows
                self._queue(self.places_topic, make)
            end = self._reader.max_offset(queue)
            if self._next is None:
                self._next = self._reader.min_offset(queue)
            if end < self._next:
                raise ConfigError(lost(self.decisions_topic, "it was deleted and made again while the query ran"))
            while self._next < end:
                answer = self._reader.pull(queue, self._next, _PULL_COUNT)
                for message in answer.messages:
                    self._apply(message)
                self._next = max(answer.next_offset, self._next)
            return self._state

    def _apply(self, message: MessageView) -> None:
        try:
            self._state.apply(decode_record(message.body))
        except msgspec.DecodeError as error:
            log.warning("message %d of %s is no record of the sink: %s", message.queue_offset, message.topic, error)

    def insert(self, record: ControlRecord) -> ControlState:
        """Append a record. It counts only if the state that is returned says so."""
        self.append(record)
        return self.refresh()

    def append(self, record: ControlRecord) -> None:
        """Append a record, without reading what it has become."""
        queue = self._queue(self.decisions_topic)
        self._writer.append(queue, Message(queue.topic, encode_record(record), tags="control", keys=record.query))

    def write_piece(self, piece: Piece) -> Pieces:
        """Write down where half messages lie. Raises SinkTopicMissing."""
        queue = self._queue(self.places_topic)
        offset = self._writer.append(queue, Message(queue.topic, encode_piece(piece), tags="places"))
        return Pieces(queue.broker_name, queue.queue_id, offset)

    def read_piece(self, place: Pieces) -> Piece:
        """Raises ConfigError when the message was deleted."""
        queue = MessageQueue(self.places_topic, place.broker, place.queue_id)
        self._queue(self.places_topic)
        answer = self._reader.pull(queue, place.offset, 1)
        if not answer.messages or answer.messages[0].queue_offset != place.offset:
            raise ConfigError(
                f"the topic {self.places_topic} no longer has the message {place.offset} with the places of half "
                "messages that are to be ended: it was deleted, or the messages are older than the broker keeps them. "
                "Commit the open half messages of the batch with `gantry transactions`"
            )
        return decode_piece(answer.messages[0].body)

    def _queue(self, topic: str, make: bool = False) -> MessageQueue:
        """The only queue of one of both topics."""
        queue = self._queues.get(topic)
        if queue is None:
            queues = self._made(topic) if make else self._found(topic)
            if len(queues) != 1:
                raise ConfigError(
                    f"the topic {topic} has {len(queues)} queues; it must have one, so that its records are in one "
                    "order. Give another producerGroup, and let the sink make its topics"
                )
            queue = self._queues[topic] = queues[0]
        return queue

    def _made(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic, which is made when it does not exist."""
        try:
            return self._reader.queues(topic)
        except RouteNotFound:
            self._writer.make_topic(topic)
        return self._asked(topic, TOPIC_TIMEOUT_S)

    def _found(self, topic: str) -> list[MessageQueue]:
        try:
            return self._asked(topic, self._missing_s)
        except RouteNotFound:
            if topic == self.decisions_topic:
                raise SinkTopicMissing(
                    f"the control topic {topic} cannot say which batches were written: no name server knows it. If its "
                    "broker is away, start it, and then the query again. If the topic was deleted, or the query wrote "
                    f"with another producerGroup or with at_least_once before: {_WRITTEN_AGAIN}"
                ) from None
            raise SinkTopicMissing(
                f"no name server knows the topic {topic}, in which the sink writes down where half messages lie. If "
                "its broker is away, start it, and then the query again. If the topic was deleted, start the query "
                "once with the option controlTopicLost=accept"
            ) from None

    def _asked(self, topic: str, seconds: float) -> list[MessageQueue]:
        """The queues of a topic, as soon as name servers know it."""
        clock = SystemClock()
        give_up = clock.monotonic() + seconds
        while True:
            try:
                return self._reader.queues(topic)
            except RouteNotFound:
                if clock.monotonic() > give_up:
                    raise
                clock.block(_ASK_EVERY_S)


def check_known(state: ControlState, of: BatchId, topic: str, *, accept: bool) -> None:
    """Raise ConfigError when the control topic has lost the decisions of a query."""
    if of.batch == 0 or accept or state.knows(of.query):
        return
    raise ConfigError(
        lost(topic, f"it knows nothing of this query, which is at batch {of.batch}: it was deleted or emptied, the "
             "query paused for longer than the broker keeps messages, or its earlier batches were written with another "
             "producerGroup or with at_least_once")
    )  # fmt: skip


_WRITTEN_AGAIN: Final = (
    "if the last batch of the checkpoint was interrupted, its messages may be in their topic already, and would be "
    "written again. To go on all the same, start the query once with the option controlTopicLost=accept"
)


def lost(topic: str, why: str) -> str:
    """What to do without the decisions of a query."""
    again = _WRITTEN_AGAIN[0].upper() + _WRITTEN_AGAIN[1:]
    return f"the control topic {topic} cannot say which batches were written: {why}. {again}"
