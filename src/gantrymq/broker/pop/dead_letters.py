"""A consumer gives a message up: its dead letter and the end of its delivery are one step.

A dead letter that was written first, and a delivery that was ended afterwards, would be two steps: a kill between them,
and a client that asks again, would make two dead letters of one delivery. So

* the dead letter and the acknowledgement in the revive topic are one write. One that a power cut has torn is completed
  at the next start, like that of a message that comes back (``ReviveLog``);
* orderly deliveries have no record in the log. The dead letter says which message it was made of
  (``delivery.delivered``), and a start ends the delivery of each message that has one. Until the files of the orderly
  pops and of the offsets know about it, a start reads the log from there.

Who asks again, after an answer that was lost, is told that it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from typing import Final, TypeAlias

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
from gantrymq.store.values import NewRecord

LETTERS_MAX: Final = 2_000
"""Dead letters that are looked at for one delivery of an earlier process."""
_Place: TypeAlias = tuple[Key, int]
"""A delivery: its check point, and the offset of its message."""
ORDERLY_START: Final = -1
"""In place of the start of a check point, which orderly deliveries do not have."""


@dataclass(frozen=True, slots=True)
class _Unsaved:
    """A dead letter of an orderly delivery."""

    place: int
    """In the log."""
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
        self._unsaved: deque[_Unsaved] = deque()
        self._given_up: set[tuple[Place, int]] = set()
        """Orderly messages with a dead letter, which a start did not find in any delivery: they come again."""
        if delivered is not None:
            delivered.parts.append(Delivering(self._settle, self._held_from, lambda fields: None))

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
        handle = parse(delivery.receipt_handle)
        start = ORDERLY_START if handle.orderly else handle.start_offset
        key = (delivery.topic, delivery.group, delivery.queue_id, start, handle.pop_time, handle.broker_name)
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
        try:
            self._revive_log.write(lines, partial(self._ended, place, self._store.appended), before=[letter])
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
        topic, group, queue_id, start, pop_time, _ = key
        if error is None and start == ORDERLY_START:
            self._deliveries.ack_in_order(topic, group, queue_id, offset, pop_time)
            self._hold(lies_at)
        for done in waiting:
            done(None if error is None else Refused(Refusal.FAILED, str(error)))

    def _forget(self, place: _Place) -> list[AckDone]:
        key, offset = place
        opened = self._revive_log.ledger.get(key)
        if opened is not None:
            opened.moving.discard(offset)
        return self._under_way.pop(place)

    # Orderly deliveries.

    def _in_hand_in_order(self, delivery: PopDelivery, pop_time: int) -> bool:
        """Whether the delivery goes on; False: it was ended. Raises Refused when its time was over."""
        topic, group, queue_id, offset = delivery.topic, delivery.group, delivery.queue_id, delivery.offset
        block = self._blocks.last(topic, group, queue_id)
        if offset < (self._offsets.get(group, topic, queue_id) or 0) or (block is not None and offset in block.acked):
            return False
        if block is not None and (block.pop_time != pop_time or offset not in block.offsets):
            raise Refused(
                Refusal.MESSAGE_UNKNOWN, "this delivery has ended: the invisible time is over, the message came again"
            )
        if ((group, topic, queue_id), offset) in self._given_up:
            self._given_up.discard(((group, topic, queue_id), offset))
            self._deliveries.ack_in_order(topic, group, queue_id, offset, pop_time)
            return False
        return True

    def _hold(self, lies_at: int) -> None:
        """The files do not know about a dead letter yet."""
        order_write = self._order_file.begun + (self._blocks.changed or self._order_file.dirty)
        self._unsaved.append(_Unsaved(lies_at, order_write, self._offsets.next_write))

    def _settle(self, flushed: int) -> None:
        """Hold no longer what the files know about."""
        unsaved, order_kept, offsets_kept = self._unsaved, self._order_file.kept, self._offsets.kept_write
        while unsaved and unsaved[0].order_write <= order_kept and unsaved[0].offsets_write <= offsets_kept:
            unsaved.popleft()

    def _held_from(self) -> int:
        return self._unsaved[0].place if self._unsaved else NOWHERE

    def recover(self) -> None:
        """End the orderly deliveries whose messages have dead letters that the files do not know about."""
        delivered, self._delivered = self._delivered, None
        if delivered is None or delivered.noted is None:
            return
        first = NOWHERE
        for group in self._groups.names():
            config = self._groups.get(group)
            if config is not None and config.consume_message_orderly:
                letters = self._letters(group, delivered.noted.position)
                for (topic, queue_id), of_queue in letters.items():
                    place = (group, topic, queue_id)
                    first = min(first, self._recover_queue(place, of_queue, whole=delivered.whole))
        if first != NOWHERE:
            self._hold(first)

    def _letters(self, group: str, since: int) -> dict[tuple[str, int], dict[int, StoredMessage]]:
        """The dead letters of a group behind a place in the log, by the queue and the offset of the message."""
        found: dict[tuple[str, int], dict[int, StoredMessage]] = {}
        for letter in takewhile(lambda each: each.log_offset >= since, self._letters_back(group)):
            made_of = letter.prepared_transaction_offset
            message = self._store.read(made_of - 1) if made_of else None
            if message is not None:
                found.setdefault((message.topic, message.queue_id), {})[message.queue_offset] = letter
        return found

    def _recover_queue(self, place: Place, letters: Mapping[int, StoredMessage], *, whole: bool) -> int:
        """Where the first dead letter lies that ended a delivery; ``NOWHERE`` when there is none."""
        group, topic, queue_id = place
        ended: list[int] = []
        block = self._blocks.last(topic, group, queue_id)
        for offset in block.offsets if block is not None else ():
            letter = letters.get(offset)
            if block is not None and letter is not None and letter.store_timestamp >= block.pop_time:
                self._blocks.ack(topic, group, queue_id, offset, block.pop_time)
                ended.append(letter.log_offset)
        committed = self._offsets.get(*place)
        position = committed or 0
        if block is not None and position in block.offsets:
            position = block.next_offset()
        if not whole:  # Else they are of any time, and the group may have been sent back since.
            while committed is not None and position in letters:
                ended.append(letters[position].log_offset)
                position += 1
            self._given_up.update((place, offset) for offset in letters if offset >= position)
        if committed is not None and position > committed:
            self._cursors.jump(place, position)
        return min(ended, default=NOWHERE)
