"""Deliveries that go on: a consumer ends them by an acknowledgement, or changes how long the message is invisible.

Answered when that is durable. Source: AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.check_point import Ack, CheckPoint, Key
from gantrymq.broker.pop.cursors import Cursors
from gantrymq.broker.pop.order_blocks import OrderBlocks
from gantrymq.broker.pop.revive_log import Line, ReviveLog
from gantrymq.broker.pop.values import AckDone
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.errors import StoreError
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.steady import SteadyTime


class Deliveries:
    """See above. ``opened``: called with (topic, group) when an orderly queue was opened by an acknowledgement."""

    def __init__(
        self, config: LiveConfig, revive_log: ReviveLog, cursors: Cursors, blocks: OrderBlocks,
        offsets: ConsumerOffsets, clock: Clock, time: SteadyTime,
    ) -> None:  # fmt: skip
        self._config = config
        self._revive_log = revive_log
        self._cursors = cursors
        self._blocks = blocks
        self._offsets = offsets
        self._clock = clock
        self._time = time
        self._began = clock.wall_ms()
        self._acked: dict[tuple[int, Key], set[int]] = {}
        """Acknowledged in this turn of the loop: (revive queue, check point) to offsets."""
        self._ack_waiters: list[AckDone] = []
        self.opened: Callable[[str, str], None] = lambda topic, group: None

    def ack(self, receipts: Sequence[tuple[int, int, Ack]], done: AckDone) -> None:
        """Messages were consumed: (revive queue, visible at, acknowledgement) of each check point.

        ``done`` is called when that is durable. What came back already or was acknowledged before is passed over.
        """
        now = self._clock.wall_ms()
        any_left = False
        for revive_queue, visible_at, ack in receipts:
            opened = self._revive_log.ledger.get(ack.key)
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
            refused = None if error is None else Refused(Refusal.FAILED, str(error))
            for waiter in waiters:
                waiter(refused)

        lines = [Line(queue, Ack(key, tuple(sorted(offsets)))) for (queue, key), offsets in acked.items()]
        try:
            self._revive_log.write(lines, done)
        except StoreError as error:
            done(error)

    def ack_in_order(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> bool:
        """An orderly message was consumed; False when it is not of the last batch. An old batch's is passed over."""
        if offset < (self._offsets.get(group, topic, queue_id) or 0):
            return True
        acked = self._blocks.ack(topic, group, queue_id, offset, pop_time)
        if acked.commit is not None:
            self._cursors.jump((group, topic, queue_id), acked.commit)
            if self._blocks.blocked_until(topic, group, queue_id, None, self._time.now_ms()) is None:
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
        ledger = self._revive_log.ledger
        opened = ledger.get(key)
        now = self._time.wall_ms()
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
            self._revive_log.write(
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
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, invisible_ms: int
    ) -> int:  # fmt: skip
        """Show a message of the last orderly batch again ``invisible_ms`` from now; the time of that, by the clock that
        said ``pop_time``."""
        ahead_ms = self._blocks.ahead_ms(topic, group, queue_id)
        visible_at = self._time.now_ms() + (self._time.skew_ms() if ahead_ms is None else ahead_ms) + invisible_ms
        if offset >= (self._offsets.get(group, topic, queue_id) or 0):
            self._blocks.change(topic, group, queue_id, offset, pop_time, visible_at)
        return visible_at
