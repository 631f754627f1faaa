"""Acknowledgements and changes of the invisible time: ``PopAcks`` checks what consumers ask for, ``Deliveries`` does
it. A request is answered when its effect is durable.

Source: AckMessageProcessor, ChangeInvisibleTimeProcessor; docs/protocol.md#pop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.check_point import Ack, CheckPoint, Key
from gantrymq.broker.pop.cursors import Cursors
from gantrymq.broker.pop.holds import NOBODY, Hold
from gantrymq.broker.pop.order_blocks import OrderBlocks
from gantrymq.broker.pop.queues import PopChecks
from gantrymq.broker.pop.revive_log import Line, ReviveLog
from gantrymq.broker.pop.values import MAX_INVISIBLE_MS, AckDone, PopDelivery, RenewDone, Renewed
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.message.pop import BatchAck
from gantrymq.message.receipt_handle import ORDERLY, ReceiptHandle, parse, real_topic
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.message_store import MessageStore

ENDED: Final = "this delivery has ended: the message was acknowledged, or its invisible time is over"
ACKS_MAX: Final = 10_000
"""Check points of one batch of acknowledgements."""
BIT_SETS_MAX: Final = 49_152
"""Bytes of all their bit sets. A pop hands out at most 32 messages, at most some hundred places apart."""


class PopAcks:
    """Ends or prolongs deliveries. Every method raises Refused."""

    def __init__(
        self, checks: PopChecks, deliveries: Deliveries, store: MessageStore, clock: Clock, broker_name: str
    ) -> None:
        self._checks = checks
        self._deliveries = deliveries
        self._store = store
        self._clock = clock
        self._broker_name = broker_name

    def ack(self, delivery: PopDelivery, done: AckDone, *, in_hand: bool = False) -> bool:
        """The message was consumed. True when that is done; False: ``done`` is called when it is, or has failed.
        ``in_hand``: a delivery that has ended is refused, and not passed over."""
        self._checks.queue(delivery.topic, delivery.queue_id)
        first, end = self._store.queue_range(delivery.topic, delivery.queue_id)
        if not first <= delivery.offset <= end:
            raise Refused(
                Refusal.MESSAGE_UNKNOWN,
                f"offset is illegal, key:{delivery.topic}@{delivery.queue_id}, commit:{delivery.offset}, "
                f"store:{first}~{end}",
            )
        handle = _handle(delivery.receipt_handle)
        if handle.orderly:
            offsets = [delivery.offset]
            self._ack_in_order(delivery.topic, delivery.group, delivery.queue_id, offsets, handle.pop_time)
            return True
        handle = self._deliveries.current(delivery, handle)
        key = _key_of(delivery, handle)
        if in_hand and self._deliveries.in_hand(key, delivery.offset, handle) is None:
            raise Refused(Refusal.MESSAGE_UNKNOWN, ENDED)
        self._deliveries.ack([(handle.revive_queue, handle.visible_at, Ack(key, (delivery.offset,)))], done)
        return False

    def batch_ack(self, acks: Sequence[BatchAck], broker_name: str | None, done: AckDone) -> None:
        """Messages of several check points were consumed; ``done`` is called when that is done or has failed."""
        if not acks:
            raise Refused(Refusal.MESSAGE_UNKNOWN, "the batch holds no acknowledgement")
        if len(acks) > ACKS_MAX or sum(len(ack.bit_set) for ack in acks) > BIT_SETS_MAX:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"acknowledge the messages of at most {ACKS_MAX} pops in one request, with bit sets of "
                f"at most {BIT_SETS_MAX} bytes together",
            )
        broker = broker_name or self._broker_name
        receipts: list[tuple[int, int, Ack]] = []
        for ack in acks:
            receipt = self._receipt(ack, broker)
            if receipt is not None:
                receipts.append(receipt)
        self._deliveries.ack(receipts, done)

    def _receipt(self, ack: BatchAck, broker: str) -> tuple[int, int, Ack] | None:
        """None when there is nothing (more) to write; as in Apache's broker, places that do not exist are skipped."""
        topic = real_topic(ack.topic, ack.consumer_group, ack.retry)
        if topic is None:
            raise Refused(Refusal.MESSAGE_ILLEGAL, f"retry is {ack.retry!r}; 0, 1 and 2 exist")
        first, end = self._store.queue_range(topic, ack.queue_id)
        offsets = tuple(offset for offset in ack.offsets() if first <= offset < end)
        if not offsets:
            return None
        if ack.revive_queue_id == ORDERLY:
            self._ack_in_order(topic, ack.consumer_group, ack.queue_id, offsets, ack.pop_time)
            return None
        key = (topic, ack.consumer_group, ack.queue_id, ack.start_offset, ack.pop_time, broker)
        return ack.revive_queue_id, ack.pop_time + ack.invisible_time, Ack(key, offsets)

    def _ack_in_order(self, topic: str, group: str, queue_id: int, offsets: Sequence[int], pop_time: int) -> None:
        for offset in offsets:
            if not self._deliveries.ack_in_order(topic, group, queue_id, offset, pop_time):
                raise Refused(
                    Refusal.MESSAGE_ILLEGAL,
                    f"offset is illegal, key:{topic}@{group}@{queue_id}, commit:{offset}: "
                    "it is no message of the last batch",
                )

    def change_invisible_time(
        self, delivery: PopDelivery, invisible_ms: int, *, suspend: bool, done: RenewDone, hold: Hold = NOBODY
    ) -> Renewed | None:
        """Let the message be invisible for ``invisible_ms`` from now. The new parts of its receipt handle; None when
        ``done`` gets them, durable. ``suspend``: the delivery does not count as an attempt. ``hold``: for whom a door
        does this by itself.
        """
        self._checks.queue(delivery.topic, delivery.queue_id)
        first, end = self._store.queue_range(delivery.topic, delivery.queue_id)
        if not first <= delivery.offset < end:
            raise Refused(Refusal.MESSAGE_UNKNOWN, f"there is no message {delivery.offset} in {first}~{end}")
        if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
            raise Refused(Refusal.PARAMETER_INVALID, f"invisibleTime is {invisible_ms}; 0 to {MAX_INVISIBLE_MS} ms")
        handle = _handle(delivery.receipt_handle)
        if handle.orderly:
            return self._change_in_order(delivery, handle, invisible_ms, hold.holder)
        handle = self._deliveries.current(delivery, handle)

        def changed(pop_time: int, error: StoreError | None) -> None:
            if error is None:
                done(Renewed(pop_time, invisible_ms, handle.revive_queue))
            else:
                done(Refused(Refusal.FAILED, str(error)))

        going_on = self._deliveries.change(
            delivery.topic, delivery.group, delivery.queue_id, delivery.offset, handle, invisible_ms,
            suspend=suspend, done=changed, hold=hold,
        )  # fmt: skip
        if not going_on:
            # Apache's broker says it did it, although somebody else may have got the message meanwhile.
            raise Refused(Refusal.MESSAGE_UNKNOWN, ENDED)
        return None

    def may_go_on(self, delivery: PopDelivery) -> bool:
        """Whether a delivery goes on, although the time of its receipt handle may be over: a door has prolonged it."""
        handle = _handle(delivery.receipt_handle)
        if handle.orderly:
            return True
        handle = self._deliveries.current(delivery, handle)
        return self._deliveries.in_hand(_key_of(delivery, handle), delivery.offset, handle) is not None

    def _change_in_order(
        self, delivery: PopDelivery, handle: ReceiptHandle, invisible_ms: int, holder: str
    ) -> Renewed:  # fmt: skip
        visible_at = self._deliveries.change_in_order(
            delivery.topic, delivery.group, delivery.queue_id, delivery.offset, handle.pop_time, invisible_ms, holder
        )
        return Renewed(handle.pop_time, visible_at - handle.pop_time, handle.revive_queue)


def _key_of(delivery: PopDelivery, handle: ReceiptHandle) -> Key:
    return (
        delivery.topic, delivery.group, delivery.queue_id, handle.start_offset, handle.pop_time, handle.broker_name
    )  # fmt: skip


def _handle(text: str) -> ReceiptHandle:
    try:
        return parse(text)
    except RemoteProtocolError as error:
        raise Refused(Refusal.MESSAGE_ILLEGAL, str(error)) from error


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
        suspend: bool, done: Callable[[int, StoreError | None], None], hold: Hold = NOBODY,
    ) -> bool:  # fmt: skip
        """Let a message be invisible for ``invisible_time`` ms from now; ``done`` gets the new pop time, durable.

        False, and ``done`` is not called, when the delivery has ended: the message was acknowledged or has come back.
        ``suspend``: the delivery does not count as an attempt. Raises Refused.
        """
        key = (topic, group, queue_id, handle.start_offset, handle.pop_time, handle.broker_name)
        revive_queue = self.in_hand(key, offset, handle)
        if revive_queue is None:
            return False
        now = self._time.wall_ms()
        # The old check point may be of this millisecond, too, and must not be taken for the new one.
        while self._revive_log.ledger.get((topic, group, queue_id, offset, now, handle.broker_name)) is not None:
            now += 1
        point = CheckPoint(
            topic, group, queue_id, offset, now, invisible_time, handle.broker_name, (0,), suspend, hold.holder,
            hold.first_pop,
        )  # fmt: skip
        try:
            self._revive_log.write(
                [Line(revive_queue, point), Line(revive_queue, Ack(key, (offset,)))], partial(done, now)
            )
        except StoreError as error:
            raise Refused(Refusal.FAILED, str(error)) from error
        return True

    def current(self, delivery: PopDelivery, handle: ReceiptHandle) -> ReceiptHandle:
        """The handle that counts: a door, perhaps another one, may have prolonged the delivery, and its client has the
        first handle."""
        if handle.orderly:
            return handle
        # It is there from the moment of the renewal on, when the check point before it may not have ended yet.
        opened = self._revive_log.ledger.prolonged(
            delivery.topic, delivery.group, delivery.queue_id, delivery.offset, handle.pop_time
        )
        if opened is None:
            return handle
        point = opened.point
        return replace(
            handle, start_offset=point.start_offset, pop_time=point.pop_time, invisible_time=point.invisible_time,
            revive_queue=opened.revive_queue,
        )  # fmt: skip

    def in_hand(self, key: Key, offset: int, handle: ReceiptHandle) -> int | None:
        """The revive queue of a delivery that goes on; None when the message was acknowledged or has come back, or when
        that is being written."""
        ledger = self._revive_log.ledger
        opened = ledger.get(key)
        revive_queue = handle.revive_queue if opened is None else opened.revive_queue
        if offset in self._acked.get((revive_queue, key), ()):
            return None
        if opened is None:
            parked = self._may_be_parked(key, handle.visible_at, revive_queue, self._time.wall_ms())
            return revive_queue if parked and not ledger.acked_early(key, offset) else None
        going_on = offset in opened.pending and offset not in opened.moving and not opened.busy
        return revive_queue if going_on else None

    def _may_be_parked(self, key: Key, visible_at: int, revive_queue: int, now: int) -> bool:
        """Whether a check point that is not in the ledger can be one of Apache's that waits in the timer; else it is
        done with. Those of this process are all in the ledger.
        """
        return key[4] < self._began and visible_at > now and 0 <= revive_queue < self._config.pop.revive_queue_num

    def change_in_order(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, invisible_ms: int, holder: str = ""
    ) -> int:  # fmt: skip
        """Show a message of the last orderly batch again ``invisible_ms`` from now; the time of that, by the clock that
        said ``pop_time``."""
        ahead_ms = self._blocks.ahead_ms(topic, group, queue_id)
        visible_at = self._time.now_ms() + (self._time.skew_ms() if ahead_ms is None else ahead_ms) + invisible_ms
        if offset >= (self._offsets.get(group, topic, queue_id) or 0):
            self._blocks.change(topic, group, queue_id, offset, pop_time, visible_at, holder)
        return visible_at
