"""Popping, acknowledging, renewing: the operations of POP, whatever protocol asks for them.

Decisions are made by the ledger, the cursors and the order blocks; this reads, appends, and answers when it is durable.
All calls belong to the event loop. Source: PopMessageProcessor, AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from gantrymq.broker.filtering.selection import EVERYTHING, Selection
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.batch import Batch, queue_offsets
from gantrymq.broker.pop.check_point import Ack, CheckPoint, Key
from gantrymq.broker.pop.cursors import Cursors, Taken
from gantrymq.broker.pop.names import normal_topic, pop_retry_topic
from gantrymq.broker.pop.order_blocks import OrderBlocks
from gantrymq.broker.pop.revive_log import Done, Line, ReviveLog
from gantrymq.broker.pop.reviver import Reviver
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.json_file import LazyFile, read_json
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import ConfigError, CorruptRecord, StoreError
from gantrymq.message.system_topics import RETRY_PREFIX
from gantrymq.protocol.receipt_handle import ORDERLY, ReceiptHandle
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.rng import Rng
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import GetResult, GetStatus

log = logging.getLogger("gantrymq.broker")

ORDER_FILE: Final = "config/consumerOrderInfo.json"
MAX_COUNT: Final = 32
"""Messages of one pop."""
DROP_BATCH: Final = 128
"""Check points of deleted topics that are ended in one write."""
PASS_OVER_READS: Final = 16
"""Reads that find nothing wanted, 800 messages each, before others have their turn."""
RECENT_BYTES: Final = 1 << 30
"""A group that begins at the end of a queue gets all of it while the queue's first message is not further back in the
log than this: Apache does so while it is in memory (``initPopOffsetByCheckMsgInMem``)."""

_MOVED: Final = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY})
_NOTHING_WANTED: Final = frozenset({GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a consumer asks for."""

    group: str
    topic: str
    queue_id: int
    """-1: any."""
    count: int
    invisible_time: int
    """ms"""
    from_start: bool = True
    """Where a group begins that never read a queue."""
    selection: Selection = EVERYTHING
    order: bool = False
    attempt_id: str | None = None


@dataclass(slots=True)
class Popped:
    """What it gets."""

    pop_time: int
    revive_queue: int
    rest: int = 0
    """Messages left in the queues that were looked at."""
    batches: list[Batch] = field(default_factory=list)
    passed_over: bool = False
    """Messages were skipped that the consumer does not want, and there may be others behind them."""
    blocked_until: int | None = None
    """Orderly: when a queue that is closed now opens, ms since 1970."""

    @property
    def count(self) -> int:
        return sum(len(batch.offsets) for batch in self.batches)


Given: TypeAlias = Callable[[Popped, StoreError | None], None]
"""Called when the check points of what was popped are durable; with an error nothing may be handed out."""


class PopConsumption:
    """See above. ``opened``: called with (topic, group) when an orderly queue was opened by an acknowledgement."""

    def __init__(
        self, config: LiveConfig, store: MessageStore, topics: Topics, groups: Groups, offsets: ConsumerOffsets,
        clock: Clock, rng: Rng, disk: Disk, host: bytes,
    ) -> None:  # fmt: skip
        """``host``: packed address of this broker. Raises ConfigError when the file of orderly pops is damaged."""
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clock = clock
        self._rng = rng
        self._cursors = Cursors(offsets)
        self.revive_log = ReviveLog(
            store, offsets, clock, config.identity.broker_cluster_name, config.identity.broker_name, host
        )  # fmt: skip
        self._reviver = Reviver(store, self.revive_log, topics, groups, clock, v2=config.pop.enable_retry_topic_v2)
        self.blocks = OrderBlocks()
        self._order_path = store.path(ORDER_FILE)
        self._order_file = LazyFile(disk, self._order_path)
        self._turn = 0
        self._began = clock.wall_ms()
        self._acked: dict[tuple[int, Key], set[int]] = {}
        """Acknowledged in this turn of the loop: (revive queue, check point) to offsets."""
        self._ack_waiters: list[Done] = []
        self.opened: Callable[[str, str], None] = lambda topic, group: None
        self._load(read_json(disk, self._order_path))

    def _load(self, content: dict[object, object] | None) -> None:
        try:
            self.blocks.load(content or {})
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{self._order_path} is no table of orderly pops: {error!r}; mend or remove it"
            ) from error  # fmt: skip

    # Life.

    def rebuild(self) -> None:
        """Read the check points that are open."""
        self.revive_log.rebuild(self._cursors)

    def start(self) -> None:
        self._reviver.start()

    def close(self) -> None:
        """Stop and write what was not written. Raises StoreError."""
        self._reviver.close()
        if self.blocks.changed:
            self._order_file.write(self.blocks.content())
            self.blocks.changed = False

    def save_later(self) -> None:
        """Write what changed of orderly pops. Raises StoreError."""
        self.blocks.expire(self._clock.wall_ms())
        if self.blocks.changed:
            self.blocks.changed = False
            self._order_file.dirty = True
        self._order_file.write_later(self.blocks.content)

    def drop_deleted(self) -> None:
        """A topic was deleted: its messages do not come back, not even when a topic of that name is made again."""
        lines = [
            Line(opened.revive_queue, Ack(opened.point.key, tuple(sorted(opened.pending))))
            for opened in self.revive_log.ledger
            if not self._topics.exists(normal_topic(opened.point.topic, opened.point.group))
        ]
        for start in range(0, len(lines), DROP_BATCH):
            try:
                self.revive_log.write(lines[start : start + DROP_BATCH], _log_error)
            except StoreError as error:
                _log_error(error)

    # Popping.

    def pop(self, wanted: Wanted, given: Given) -> Popped:
        """Take messages; ``given`` is called when they may be handed out, unless there are none.

        Raises Refused when the store does not take the check points; then nothing was taken.
        """
        popped = Popped(self._clock.wall_ms(), ORDERLY if wanted.order else self._next_revive_queue())
        for topic, queue_id in self._places(wanted):
            self._pop_queue(wanted, topic, queue_id, popped)
        if not popped.batches:
            return popped
        if wanted.order:
            self._close_queues(wanted, popped)
            given(popped, None)
        else:
            self._write_check_points(wanted, popped, given)
        return popped

    def peek(self, wanted: Wanted) -> Popped:
        """Look without taking."""
        popped = Popped(self._clock.wall_ms(), 0)
        for topic, queue_id in self._places(wanted):
            position = self._cursors.position((wanted.group, topic, queue_id))
            first, end = self._store.queue_range(topic, queue_id)
            position = max(first, position or 0)
            popped.rest += max(0, end - position)
            room = wanted.count - popped.count
            if room > 0 and position < end:
                result = self._read(topic, queue_id, position, room, EVERYTHING)
                if result.count:
                    popped.batches.append(_batch(topic, queue_id, position, result))
        return popped

    def has_message(self, wanted: Wanted) -> bool:
        """Whether a pop could find something now."""
        now = self._clock.wall_ms()
        for topic, queue_id in self._places(wanted):
            if wanted.order and self.blocks.blocked_until(topic, wanted.group, queue_id, wanted.attempt_id, now):
                continue
            first, end = self._store.queue_range(topic, queue_id)
            position = self._cursors.position((wanted.group, topic, queue_id))
            if end > max(first, position or 0):
                return True
        return False

    def _next_revive_queue(self) -> int:
        self._turn += 1
        return self._turn % self._config.pop.revive_queue_num

    def _places(self, wanted: Wanted) -> list[tuple[str, int]]:
        """(topic, queue id) to look at, in this order. Now and then retried messages come first, so that a topic that
        is never empty does not keep them away.
        """
        chance = self._rng.below(100)
        if wanted.queue_id >= 0:
            places = [(wanted.topic, wanted.queue_id)]
        else:
            places = self._queues(wanted.topic, chance)
        if wanted.order:
            return places
        config = self._config.pop
        # The texts of an answer name one queue 0 of a retry topic, so only one of the two kinds can take part.
        v1_too = config.retrieve_message_from_pop_retry_topic_v1
        v2 = config.enable_retry_topic_v2 and not (v1_too and chance % 2 == 0)
        retry = self._queues(pop_retry_topic(wanted.topic, wanted.group, v2=v2), chance)
        return [*retry, *places] if chance < config.pop_from_retry_probability else [*places, *retry]

    def _queues(self, topic: str, start: int) -> list[tuple[str, int]]:
        known = self._topics.get(topic)
        count = known.read_queue_nums if known is not None else 0
        return [(topic, (start + number) % count) for number in range(count)]

    def _pop_queue(self, wanted: Wanted, topic: str, queue_id: int, popped: Popped) -> None:
        place = (wanted.group, topic, queue_id)
        reset = self._offsets.resets.pop(place, None) if self._offsets.resets else None
        if reset is not None:
            self._cursors.jump(place, reset)
            self.blocks.open(topic, wanted.group, queue_id)
        position = self._cursors.position(place)
        if position is None:
            position = self._first_position(topic, queue_id, wanted.from_start)
            self._cursors.jump(place, position)
        if wanted.order:
            self.blocks.read_from(topic, wanted.group, queue_id, position)
            until = self.blocks.blocked_until(topic, wanted.group, queue_id, wanted.attempt_id, popped.pop_time)
            if until is not None:
                popped.blocked_until = min(until, popped.blocked_until or until)
                return
        room = wanted.count - popped.count
        if room <= 0:
            popped.rest += max(0, self._store.queue_range(topic, queue_id)[1] - position)
            return
        result = self._read(topic, queue_id, position, room, wanted.selection)
        if result.status in _MOVED:
            log.warning("%s pops %s/%d from %d: %s", wanted.group, topic, queue_id, position, result.status.value)
            position = result.next_offset
            self._cursors.jump(place, position)
            result = self._read(topic, queue_id, position, room, wanted.selection)
        begin = position
        for _ in range(PASS_OVER_READS):
            if result.status not in _NOTHING_WANTED or not position < result.next_offset < result.max_offset:
                break
            position = result.next_offset
            result = self._read(topic, queue_id, position, room, wanted.selection)
        if result.count:
            popped.batches.append(_batch(topic, queue_id, position, result))
        elif result.status in _NOTHING_WANTED and result.next_offset > begin:
            self._cursors.settle(self._cursors.take(place, result.next_offset))
            popped.passed_over = popped.passed_over or result.next_offset < result.max_offset
        popped.rest += max(0, result.max_offset - result.next_offset)

    def _first_position(self, topic: str, queue_id: int, from_start: bool) -> int:
        first, end = self._store.queue_range(topic, queue_id)
        if from_start or topic.startswith(RETRY_PREFIX):
            return first
        entry = self._store.entry(topic, queue_id, 0) if self._config.pop.init_pop_offset_by_check_msg_in_mem else None
        if entry is not None and self._store.max_log_offset - entry.log_offset <= RECENT_BYTES:
            return 0
        return max(0, end - 1)

    def _read(self, topic: str, queue_id: int, position: int, count: int, selection: Selection) -> GetResult:
        max_bytes = self._config.pull.max_transfer_bytes_on_message_in_memory
        try:
            return self._store.get(topic, queue_id, position, count, max_bytes, selection.tag_codes, selection.wants)
        except StoreError as error:
            raise Refused(Refusal.FAILED, f"reading failed: {error}") from error

    def _close_queues(self, wanted: Wanted, popped: Popped) -> None:
        for batch in popped.batches:
            batch.counts = self.blocks.popped(
                batch.topic, wanted.group, batch.queue_id, batch.offsets, popped.pop_time, wanted.invisible_time,
                wanted.attempt_id,
            )  # fmt: skip
            self._cursors.jump((wanted.group, batch.topic, batch.queue_id), batch.offsets[0])

    def _write_check_points(self, wanted: Wanted, popped: Popped, given: Given) -> None:
        name = self._config.identity.broker_name
        lines = [
            Line(
                popped.revive_queue,
                CheckPoint(
                    batch.topic, wanted.group, batch.queue_id, batch.start_offset, popped.pop_time,
                    wanted.invisible_time, name, tuple(offset - batch.start_offset for offset in batch.offsets),
                ),
            )
            for batch in popped.batches
        ]  # fmt: skip
        taken = [
            self._cursors.take((wanted.group, batch.topic, batch.queue_id), batch.next_offset)
            for batch in popped.batches
        ]
        try:
            self.revive_log.write(lines, partial(self._check_points_ended, popped, taken, given))
        except StoreError as error:
            self._give_back(taken)
            raise Refused(Refusal.FAILED, str(error)) from error

    def _check_points_ended(
        self, popped: Popped, taken: list[Taken], given: Given, error: StoreError | None
    ) -> None:  # fmt: skip
        if error is None:
            for item in taken:
                self._cursors.settle(item)
        else:
            self._give_back(taken)
        given(popped, error)

    def _give_back(self, taken: list[Taken]) -> None:
        for item in taken:
            self._cursors.give_back(item)

    # Acknowledging and renewing.

    def ack(self, receipts: Sequence[tuple[int, int, Ack]], done: Done) -> None:
        """Messages were consumed: (revive queue, visible at, acknowledgement) of each check point.

        ``done`` is called when that is durable. What came back already or was acknowledged before is passed over.
        """
        now = self._clock.wall_ms()
        any_left = False
        for revive_queue, visible_at, ack in receipts:
            opened = self.revive_log.ledger.get(ack.key)
            if opened is not None:
                offsets = [offset for offset in ack.offsets if offset in opened.pending]
                revive_queue = opened.revive_queue
            else:
                parked = self._may_be_parked(ack.key, visible_at, revive_queue, now)
                offsets = list(ack.offsets) if parked else []
            if offsets:
                any_left = True
                self._acked.setdefault((revive_queue, ack.key), set()).update(offsets)
        if not any_left:
            done(None)
            return
        if not self._ack_waiters:
            self._clock.call_soon(self._write_acks)
        self._ack_waiters.append(done)

    def _write_acks(self) -> None:
        """Acknowledgements of one turn of the loop: a record for each check point instead of one for each message."""
        acked, self._acked = self._acked, {}
        waiters, self._ack_waiters = self._ack_waiters, []

        def done(error: StoreError | None) -> None:
            for waiter in waiters:
                waiter(error)

        lines = [Line(queue, Ack(key, tuple(sorted(offsets)))) for (queue, key), offsets in acked.items()]
        try:
            self.revive_log.write(lines, done)
        except StoreError as error:
            done(error)

    def ack_in_order(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> bool:
        """An orderly message was consumed; False when it is not of the last batch. An old batch's is passed over."""
        if offset < (self._offsets.get(group, topic, queue_id) or 0):
            return True
        acked = self.blocks.ack(topic, group, queue_id, offset, pop_time)
        if acked.commit is not None:
            self._cursors.jump((group, topic, queue_id), acked.commit)
            if self.blocks.blocked_until(topic, group, queue_id, None, self._clock.wall_ms()) is None:
                self.opened(topic, group)
        return not acked.illegal

    def change(
        self, topic: str, group: str, queue_id: int, offset: int, handle: ReceiptHandle, invisible_time: int, *,
        suspend: bool, done: Callable[[int, StoreError | None], None],
    ) -> bool:  # fmt: skip
        """Let a message be invisible for ``invisible_time`` ms from now; ``done`` gets the new pop time, durable.

        False, and ``done`` is not called, when the delivery has ended: the message was acknowledged or has come back.
        ``suspend``: the delivery does not count as an attempt. Raises Refused.
        """
        key = (topic, group, queue_id, handle.start_offset, handle.pop_time, handle.broker_name)
        ledger = self.revive_log.ledger
        opened = ledger.get(key)
        now = self._clock.wall_ms()
        if opened is None:
            usable = self._may_be_parked(key, handle.visible_at, handle.revive_queue, now)
        else:
            being_acked = self._acked.get((opened.revive_queue, key), ())
            usable = offset in opened.pending and offset not in being_acked and not opened.busy
        if not usable:
            return False
        # The old check point may be of this millisecond, too, and must not be taken for the new one.
        while ledger.get((topic, group, queue_id, offset, now, handle.broker_name)) is not None:
            now += 1
        point = CheckPoint(topic, group, queue_id, offset, now, invisible_time, handle.broker_name, (0,), suspend)
        revive_queue = handle.revive_queue if opened is None else opened.revive_queue
        try:
            self.revive_log.write(
                [Line(revive_queue, point), Line(revive_queue, Ack(key, (offset,)))], partial(done, now)
            )
        except StoreError as error:
            raise Refused(Refusal.FAILED, str(error)) from error
        return True

    def _may_be_parked(self, key: Key, visible_at: int, revive_queue: int, now: int) -> bool:
        """Whether a check point that is not in the ledger can be one of Apache's that waits in the timer; else it is
        done with. Those of this process are all in the ledger.
        """
        return key[4] < self._began and visible_at > now and 0 <= revive_queue < self._config.pop.revive_queue_num

    def change_in_order(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, visible_at: int
    ) -> None:  # fmt: skip
        """Show a message of the last orderly batch again at another time."""
        if offset >= (self._offsets.get(group, topic, queue_id) or 0):
            self.blocks.change(topic, group, queue_id, offset, pop_time, visible_at)


def _batch(topic: str, queue_id: int, position: int, result: GetResult) -> Batch:
    try:
        offsets = queue_offsets(result.data)
    except CorruptRecord as error:
        raise Refused(Refusal.FAILED, f"reading failed: {error}") from error
    return Batch(topic, queue_id, position, result.next_offset, offsets, result.data)


def _log_error(error: StoreError | None) -> None:
    if error is not None:
        log.error("check points of a deleted topic could not be ended: %s", error)
