"""Acknowledgements and changes of the invisible time, as consumers ask for them.

Source: AckMessageProcessor, ChangeInvisibleTimeProcessor; docs/protocol.md#pop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gantrymq.broker.pop.check_point import Ack
from gantrymq.broker.pop.checks import PopChecks
from gantrymq.broker.pop.deliveries import Deliveries
from gantrymq.broker.pop.names import real_topic
from gantrymq.broker.pop.values import MAX_INVISIBLE_MS, AckDone, PopDelivery, RenewDone, Renewed
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.message.pop import BatchAck
from gantrymq.message.receipt_handle import ORDERLY, ReceiptHandle, parse
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

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

    def ack(self, delivery: PopDelivery, done: AckDone) -> bool:
        """The message was consumed. True when that is done; False: ``done`` is called when it is, or has failed."""
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
        key = (
            delivery.topic, delivery.group, delivery.queue_id, handle.start_offset, handle.pop_time,
            handle.broker_name,
        )  # fmt: skip
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
        self, delivery: PopDelivery, invisible_ms: int, *, suspend: bool, done: RenewDone
    ) -> Renewed | None:
        """Let the message be invisible for ``invisible_ms`` from now. The new parts of its receipt handle; None when
        ``done`` gets them, durable. ``suspend``: the delivery does not count as an attempt.
        """
        self._checks.queue(delivery.topic, delivery.queue_id)
        first, end = self._store.queue_range(delivery.topic, delivery.queue_id)
        if not first <= delivery.offset < end:
            raise Refused(Refusal.MESSAGE_UNKNOWN, f"there is no message {delivery.offset} in {first}~{end}")
        if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
            raise Refused(Refusal.PARAMETER_INVALID, f"invisibleTime is {invisible_ms}; 0 to {MAX_INVISIBLE_MS} ms")
        handle = _handle(delivery.receipt_handle)
        if handle.orderly:
            return self._change_in_order(delivery, handle, invisible_ms)

        def changed(pop_time: int, error: StoreError | None) -> None:
            if error is None:
                done(Renewed(pop_time, invisible_ms, handle.revive_queue))
            else:
                done(Refused(Refusal.FAILED, str(error)))

        going_on = self._deliveries.change(
            delivery.topic, delivery.group, delivery.queue_id, delivery.offset, handle, invisible_ms,
            suspend=suspend, done=changed,
        )  # fmt: skip
        if not going_on:
            # Apache's broker says it did it, although somebody else may have got the message meanwhile.
            raise Refused(
                Refusal.MESSAGE_UNKNOWN,
                "this delivery has ended: the message was acknowledged, or its invisible time is over",
            )
        return None

    def _change_in_order(self, delivery: PopDelivery, handle: ReceiptHandle, invisible_ms: int) -> Renewed:
        visible_at = self._deliveries.change_in_order(
            delivery.topic, delivery.group, delivery.queue_id, delivery.offset, handle.pop_time, invisible_ms
        )
        return Renewed(handle.pop_time, visible_at - handle.pop_time, handle.revive_queue)


def _handle(text: str) -> ReceiptHandle:
    try:
        return parse(text)
    except RemoteProtocolError as error:
        raise Refused(Refusal.MESSAGE_ILLEGAL, str(error)) from error
