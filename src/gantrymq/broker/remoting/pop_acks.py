"""ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151), CHANGE_MESSAGE_INVISIBLETIME (200053), POP_ROLLBACK (200056).

Source: AckMessageProcessor, ChangeInvisibleTimeProcessor; docs/protocol.md#pop.
"""

from __future__ import annotations

from functools import partial

from gantrymq.broker.pop.check_point import Ack
from gantrymq.broker.pop.consumption import PopConsumption
from gantrymq.broker.pop.names import real_topic
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.pop import MAX_INVISIBLE_MS
from gantrymq.broker.remoting.pop_checks import PopChecks
from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.protocol.bodies.pop import BatchAck, BatchAckRequest
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, Header, encode_response
from gantrymq.protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeAnswer
from gantrymq.protocol.receipt_handle import ORDERLY, ReceiptHandle, parse
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore


class PopAckProcessor:
    """Ends or prolongs deliveries; answered when it is durable."""

    def __init__(
        self, checks: PopChecks, consumption: PopConsumption, store: MessageStore, clock: Clock, broker_name: str
    ) -> None:
        self._checks = checks
        self._consumption = consumption
        self._store = store
        self._clock = clock
        self._broker_name = broker_name

    def ack(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(AckMessage)
        self._checks.queue(header.topic, header.queue_id)
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not first <= header.offset <= end:
            raise Refused(
                Refusal.MESSAGE_UNKNOWN,
                f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, store:{first}~{end}",
            )
        handle = _handle(header.extra_info)
        if handle.orderly:
            self._ack_in_order(header.topic, header.consumer_group, header.queue_id, [header.offset], handle.pop_time)
            return encode_response(command, ResponseCode.SUCCESS)
        key = (
            header.topic, header.consumer_group, header.queue_id, handle.start_offset, handle.pop_time,
            handle.broker_name,
        )  # fmt: skip
        receipt = (handle.revive_queue, handle.visible_at, Ack(key, (header.offset,)))
        self._consumption.ack([receipt], partial(_finish, session, command, None))
        return None

    def batch_ack(self, session: ClientSession, command: Command) -> bytes | None:
        request = BatchAckRequest.decode(command.body) if command.body else BatchAckRequest()
        if not request.acks:
            raise Refused(Refusal.MESSAGE_UNKNOWN, "the batch holds no acknowledgement")
        broker = request.broker_name or self._broker_name
        receipts: list[tuple[int, int, Ack]] = []
        for ack in request.acks:
            receipt = self._receipt(ack, broker)
            if receipt is not None:
                receipts.append(receipt)
        self._consumption.ack(receipts, partial(_finish, session, command, None))
        return None

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
            self._ack_in_order(topic, ack.consumer_group, ack.queue_id, list(offsets), ack.pop_time)
            return None
        key = (topic, ack.consumer_group, ack.queue_id, ack.start_offset, ack.pop_time, broker)
        return ack.revive_queue_id, ack.pop_time + ack.invisible_time, Ack(key, offsets)

    def _ack_in_order(self, topic: str, group: str, queue_id: int, offsets: list[int], pop_time: int) -> None:
        for offset in offsets:
            if not self._consumption.ack_in_order(topic, group, queue_id, offset, pop_time):
                raise Refused(
                    Refusal.MESSAGE_ILLEGAL,
                    f"offset is illegal, key:{topic}@{group}@{queue_id}, commit:{offset}: "
                    "it is no message of the last batch",
                )

    def change(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(ChangeInvisibleTime)
        self._checks.queue(header.topic, header.queue_id)
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not first <= header.offset < end:
            raise Refused(Refusal.MESSAGE_UNKNOWN, f"there is no message {header.offset} in {first}~{end}")
        if not 0 <= header.invisible_time <= MAX_INVISIBLE_MS:
            raise Refused(
                Refusal.PARAMETER_INVALID, f"invisibleTime is {header.invisible_time}; 0 to {MAX_INVISIBLE_MS} ms"
            )
        handle = _handle(header.extra_info)
        if handle.orderly:
            return self._change_in_order(command, header, handle)

        def answer(pop_time: int, error: StoreError | None) -> None:
            new = ChangeInvisibleTimeAnswer(
                pop_time=pop_time, invisible_time=header.invisible_time, revive_qid=handle.revive_queue
            )
            _finish(session, command, new, error)

        going_on = self._consumption.change(
            header.topic, header.consumer_group, header.queue_id, header.offset, handle, header.invisible_time,
            suspend=bool(header.suspend), done=answer,
        )  # fmt: skip
        if not going_on:
            # Apache's broker says it did it, although somebody else may have got the message meanwhile.
            raise Refused(
                Refusal.MESSAGE_UNKNOWN,
                "this delivery has ended: the message was acknowledged, or its invisible time is over",
            )
        return None

    def _change_in_order(self, command: Command, header: ChangeInvisibleTime, handle: ReceiptHandle) -> bytes:
        visible_at = self._clock.wall_ms() + header.invisible_time
        self._consumption.change_in_order(
            header.topic, header.consumer_group, header.queue_id, header.offset, handle.pop_time, visible_at
        )
        answer = ChangeInvisibleTimeAnswer(
            pop_time=handle.pop_time, invisible_time=visible_at - handle.pop_time, revive_qid=handle.revive_queue
        )
        return encode_response(command, ResponseCode.SUCCESS, answer)

    def rollback(self, session: ClientSession, command: Command) -> bytes:
        """POP_ROLLBACK moves Apache's records from its key-value store to the revive topic. Ours have never been
        anywhere else, so there is nothing to do, and that is a success.
        """
        return encode_response(command, ResponseCode.SUCCESS)


def _handle(text: str) -> ReceiptHandle:
    try:
        return parse(text)
    except RemoteProtocolError as error:
        raise Refused(Refusal.MESSAGE_ILLEGAL, str(error)) from error


def _finish(session: ClientSession, command: Command, header: Header | None, error: StoreError | None) -> None:
    if command.is_one_way:
        return
    if error is None:
        session.send(encode_response(command, ResponseCode.SUCCESS, header))
    else:
        session.send(encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error)))
