"""A consumer gives a message up: its dead letter and the end of its delivery are one step.

A dead letter that was written first, and a delivery that was ended afterwards, would be two steps: a kill between them,
and a client that asks again, would make two dead letters of one delivery. So

* the dead letter and the acknowledgement in the revive topic are one write. One that a power cut has torn is completed
  at the next start, like that of a message that comes back (``ReviveLog``);
* orderly deliveries have no record in the log. The dead letter says which message it was made of
  (``delivery.delivered``), and a start ends the delivery of each message that has one. Until the files of the orderly
  pops and of the offsets know about it, a start reads the log from there. One whose delivery a start does not know (it
  was made just before the kill) is noted in ``gantry/delivered``: the message comes again, and makes no second one.

Who asks again, after an answer that was lost, is told that it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final, TypeAlias

from gantrymq.broker.delivery.delivered import NOWHERE, Delivered, Delivering, mark_of
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.pop.acks import Deliveries
from gantrymq.broker.pop.check_point import Ack, Key
from gantrymq.broker.pop.cursors import Cursors, Place
from gantrymq.broker.pop.order_blocks import OrderBlocks
from gantrymq.broker.pop.revive_log import Line, ReviveLog
from gantrymq.broker.pop.values import AckDone, PopDelivery
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.json_file import LazyFile
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message.message import StoredMessage
from gantrymq.message.receipt_handle import parse
from gantrymq.message.system_topics import dead_letter_topic, normal_topic
from gantrymq.store.message_store import MessageStore
from gantrymq.store.queues.multi_dispatch import NUMBER, further_places
from gantrymq.store.values import NewRecord

LETTERS_MAX: Final = 2_000
"""Dead letters that are looked at for one delivery of an earlier process, and messages that are noted."""
_Place: TypeAlias = tuple[Key, int]
"""A delivery: its check point, and the offset of its message."""
ORDERLY_START: Final = -1
"""In place of the start of a check point, which orderly deliveries do not have."""


_Message: TypeAlias = tuple[str, str, int, int]
"""Group, topic, queue and offset of an orderly message."""


@dataclass(frozen=True, slots=True)
class _Unsaved:
    """A dead letter of an orderly delivery."""

    message: _Message
    place: int
    """Of the dead letter in the log."""
    order_write: int
    """The file of the orderly pops knows about it when this write is done, and"""
    offsets_write: int
    """the one of the offsets when this is."""


class DeadLetters:
    """See above. Every call belongs to the event loop."""

    def __init__(
        self, store: MessageStore, revive_log: ReviveLog, deliveries: Deliveries, cursors: Cursors, blocks: OrderBlocks,
        groups: Groups, offsets: ConsumerOffsets, order_file: LazyFile, counters: MessageCounters,
        delivered: Delivered | None,
    ) -> None:  # fmt: skip
        self._store = store
        self._revive_log = revive_log
        self._deliveries = deliveries
        self._cursors = cursors
        self._blocks = blocks
        self._groups = groups
        self._offsets = offsets
        self._order_file = order_file
        self._counters = counters
        self._delivered = delivered
        self._under_way: dict[_Place, list[AckDone]] = {}
        """Deliveries whose dead letter is not safe yet, and those who wait for that."""
        self._written_from: dict[_Place, int] = {}
        """Where in the log they may begin."""
        self._unsaved: deque[_Unsaved] = deque()
        self._given_up: set[_Message] = set()
        """Those with a dead letter that may come again, because it ended no delivery that anybody knows."""
        self._ended_again: dict[_Message, _Unsaved] = {}
        """Those of them that were ended, and what must be written until that is durable."""
        if delivered is not None:
            delivered.parts.append(Delivering(self._settle, self._held_from, self._write_fields))

    def log_offset_of(self, delivery: PopDelivery) -> int:
        """Where its message lies in the log. Raises Refused when it is not there (any more)."""
        entry = self._store.entry(delivery.topic, delivery.queue_id, delivery.offset)
        if entry is None:
            raise Refused(
                Refusal.MESSAGE_UNKNOWN,
                f"there is no message {delivery.offset} in queue {delivery.queue_id} of {delivery.topic}",
            )
        return entry.log_offset

    def put(self, delivery: PopDelivery, letter: NewRecord, done: AckDone) -> bool:
        """Write ``letter`` and end the delivery. False: the delivery has ended before, nothing is written, and ``done``
        is not called; True: it is called when that is safe, or has failed. Raises Refused.
        """
        handle = self._deliveries.current(delivery, parse(delivery.receipt_handle))
        # An orderly message is one, whichever pop gave it: its old consumer may ask while a new one has it.
        start, pop_time = (ORDERLY_START, 0) if handle.orderly else (handle.start_offset, handle.pop_time)
        key = (delivery.topic, delivery.group, delivery.queue_id, start, pop_time, handle.broker_name)
        place = (key, delivery.offset)
        waiting = self._under_way.get(place)
        if waiting is not None:
            waiting.append(done)
            return True
        letter = replace(letter, prepared_transaction_offset=mark_of(self.log_offset_of(delivery)))
        if handle.orderly:
            if not self._in_hand_in_order(delivery, handle.pop_time):
                return False
            lines: list[Line] = []
        else:
            revive_queue = self._deliveries.in_hand(key, delivery.offset, handle)
            opened = self._revive_log.ledger.get(key)
            if revive_queue is None or (opened is None and self._was_given_up(delivery.group, letter, handle.pop_time)):
                return False
            lines = [Line(revive_queue, Ack(key, (delivery.offset,)))]
            if opened is not None:
                opened.moving.add(delivery.offset)
        self._under_way[place] = [done]
        begin = self._written_from[place] = self._store.appended
        try:
            self._revive_log.write(lines, partial(self._ended, place, begin), before=[letter])
        except (StoreError, MessageIllegal) as error:
            self._forget(place)
            raise Refused(Refusal.FAILED, str(error)) from error
        group, topic = delivery.group, normal_topic(delivery.topic, delivery.group)
        self._counters.sent_back(topic, group)
        self._counters.gave_up(topic, group)
        return True

    def _was_given_up(self, group: str, letter: NewRecord, pop_time: int) -> bool:
        """Of a delivery that a process before this one has ended, or that waits in Apache's timer: whether its dead
        letter is there."""
        made_of = letter.prepared_transaction_offset
        letters = self._letters_back(group)
        for written in takewhile(lambda each: each.store_timestamp >= pop_time, islice(letters, LETTERS_MAX)):
            if written.prepared_transaction_offset == made_of:
                return True
        return False

    def _letters_back(self, group: str) -> Iterator[StoredMessage]:
        """The dead letters of a group, the last one first."""
        letters = dead_letter_topic(group)
        first, end = self._store.queue_range(letters, 0)
        for offset in range(end - 1, first - 1, -1):
            entry = self._store.entry(letters, 0, offset)
            letter = None if entry is None else self._store.read(entry.log_offset)
            if letter is not None:
                yield letter

    def _ended(self, place: _Place, lies_at: int, error: StoreError | None) -> None:
        """``lies_at``: the dead letter is not before this place in the log."""
        waiting = self._forget(place)
        key, offset = place
        topic, group, queue_id, start, _, _ = key
        if error is None and start == ORDERLY_START:
            message = (group, topic, queue_id, offset)
            if not self._end_in_order(message):
                self._given_up.add(message)
            self._unsaved.append(self._unsaved_from(message, lies_at))
        for done in waiting:
            done(None if error is None else Refused(Refusal.FAILED, str(error)))

    def _forget(self, place: _Place) -> list[AckDone]:
        key, offset = place
        opened = self._revive_log.ledger.get(key)
        if opened is not None:
            opened.moving.discard(offset)
        del self._written_from[place]
        return self._under_way.pop(place)

    # Orderly deliveries.

    def _in_hand_in_order(self, delivery: PopDelivery, pop_time: int) -> bool:
        """Whether the delivery goes on; False: it was ended. Raises Refused when its time was over."""
        topic, group, queue_id, offset = delivery.topic, delivery.group, delivery.queue_id, delivery.offset
        message = (group, topic, queue_id, offset)
        block = self._blocks.last(topic, group, queue_id)
        if message in self._given_up:
            self._end_in_order(message)
            return False
        if self._is_behind(message) or (block is not None and offset in block.acked):
            return False
        if block is not None and (block.pop_time != pop_time or offset not in block.offsets):
            raise Refused(
                Refusal.MESSAGE_UNKNOWN, "this delivery has ended: the invisible time is over, the message came again"
            )
        return True

    def _end_in_order(self, message: _Message) -> bool:
        """The message is a dead letter: end whichever delivery of it goes on. False when there is none."""
        group, topic, queue_id, offset = message
        block = self._blocks.last(topic, group, queue_id)
        self._deliveries.ack_in_order(topic, group, queue_id, offset, 0 if block is None else block.pop_time)
        return self._is_behind(message) or (block is not None and offset in block.acked)

    def _is_behind(self, message: _Message) -> bool:
        """Whether the group reads on behind a message."""
        group, topic, queue_id, offset = message
        return offset < (self._offsets.get(group, topic, queue_id) or 0)

    def _unsaved_from(self, message: _Message, lies_at: int) -> _Unsaved:
        order_write = self._order_file.begun + (self._blocks.changed or self._order_file.dirty)
        return _Unsaved(message, lies_at, order_write, self._offsets.next_write)

    def _is_saved(self, unsaved: _Unsaved) -> bool:
        return (
            unsaved.order_write <= self._order_file.kept and unsaved.offsets_write <= self._offsets.kept_write
        )  # fmt: skip

    def _settle(self, flushed: int) -> None:
        """Hold no longer what the files know about. They may forget it again while the group does not read behind
        it."""
        while self._unsaved and self._is_saved(self._unsaved[0]):
            message = self._unsaved.popleft().message
            if not self._is_behind(message):
                self._given_up.add(message)
        for message in self._given_up:
            if message not in self._ended_again and self._is_behind(message):
                self._ended_again[message] = self._unsaved_from(message, NOWHERE)
        for message, unsaved in list(self._ended_again.items()):
            if self._is_saved(unsaved):
                del self._ended_again[message]
                self._given_up.discard(message)

    def _write_fields(self, fields: dict[str, Any]) -> None:
        if self._given_up:
            fields["givenUp"] = sorted(self._given_up)[-LETTERS_MAX:]

    def _held_from(self) -> int:
        return min([*self._written_from.values(), self._unsaved[0].place if self._unsaved else NOWHERE])

    def recover(self) -> None:
        """End the orderly deliveries whose messages have dead letters that the files do not know about."""
        delivered, self._delivered = self._delivered, None
        if delivered is None or delivered.noted is None:
            return
        if not delivered.whole:
            self._given_up.update(delivered.noted.given_up)
        for group in self._groups.names():
            config = self._groups.get(group)
            if config is not None and (config.consume_message_orderly or config.lite_bind_topic):
                letters = self._letters(group, delivered.noted.position)
                for of_group, topic, queue_id, _ in self._given_up:
                    if of_group == group:
                        letters.setdefault((topic, queue_id), {})
                for (topic, queue_id), of_queue in letters.items():
                    self._recover_queue((group, topic, queue_id), of_queue, whole=delivered.whole)

    def _letters(self, group: str, since: int) -> dict[tuple[str, int], dict[int, StoredMessage]]:
        """The dead letters of a group behind a place in the log, by the queue and the offset of the message."""
        found: dict[tuple[str, int], dict[int, StoredMessage]] = {}
        for letter in takewhile(lambda each: each.log_offset >= since, self._letters_back(group)):
            made_of = letter.prepared_transaction_offset
            message = self._store.read(made_of - 1) if made_of else None
            if message is not None:
                found.setdefault((message.topic, message.queue_id), {})[message.queue_offset] = letter
                for queue, number in further_places(message.properties_text):
                    found.setdefault((queue, NUMBER), {})[number] = letter
        return found

    def _recover_queue(self, place: Place, letters: Mapping[int, StoredMessage], *, whole: bool) -> None:
        group, topic, queue_id = place
        block = self._blocks.last(topic, group, queue_id)
        for offset in block.offsets if block is not None else ():
            letter = letters.get(offset)
            if block is not None and letter is not None and letter.store_timestamp >= block.pop_time:
                self._blocks.ack(topic, group, queue_id, offset, block.pop_time)
                self._given_up.add((*place, offset))
        committed = self._offsets.get(*place)
        position = committed or 0
        if not whole:  # Else they are of any time, and the group may have been sent back since.
            self._given_up.update((*place, offset) for offset in letters if offset >= position)
        if block is not None and position in block.offsets:
            position = block.next_offset()
        while committed is not None and (*place, position) in self._given_up:
            position += 1
        if committed is not None and position > committed:
            self._cursors.jump(place, position)
