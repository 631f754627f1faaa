"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue. Source: AckMessageActivity,
ChangeInvisibleDurationActivity, ForwardMessageToDLQActivity; docs/grpc.md#receiving.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gantrymq.access.operations import POP
from gantrymq.broker.grpc.calls import Caller, failed
from gantrymq.broker.grpc.deliveries import HeldDeliveries
from gantrymq.broker.grpc.incoming import check_group, check_lite, check_topic
from gantrymq.broker.grpc.messaging import Messaging
from gantrymq.broker.grpc.outcome import Outcome, all_of
from gantrymq.broker.grpc.statuses import REFUSED, Rejected, ok, together
from gantrymq.broker.pop.values import PopDelivery, Renewed
from gantrymq.errors import RemoteProtocolError
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.grpc.service_pb2 import (
    AckMessageEntry,
    AckMessageRequest,
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
)
from gantrymq.message.lite_topics import lite_queue
from gantrymq.message.receipt_handle import ReceiptHandle, parse, real_topic
from gantrymq.runtime.clock import Clock

LONGEST_INVISIBLE_MS: Final = 12 * 3600 * 1000
_OK: Final = ok()
"""Making one costs two microseconds."""


class AckMethods:
    """What consumers call about messages that they have received."""

    def __init__(self, messaging: Messaging, clock: Clock, held: HeldDeliveries) -> None:
        self._messaging = messaging
        self._acks = messaging.deliveries
        self._clock = clock
        self._held = held

    async def ack(self, caller: Caller, request: AckMessageRequest) -> AckMessageResponse:
        """Each message has a result of its own, in the order of the request."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        caller.demand(POP, (topic,), (group,))
        named = request.entries
        if not named:
            raise Rejected(Code.BAD_REQUEST, "the request names no message")
        answer = AckMessageResponse()
        results = answer.entries
        await all_of([self._fill(results.add(), topic, group, entry) for entry in named])
        answer.status.CopyFrom(together([result.status for result in results]))
        return answer

    async def _fill(self, result: AckMessageResultEntry, topic: str, group: str, entry: AckMessageEntry) -> None:
        """Acknowledge a message, and say what became of it."""
        result.message_id, result.receipt_handle = entry.message_id, entry.receipt_handle
        try:
            await self._end(_where(topic, entry.lite_topic), group, entry.receipt_handle)
            result.status.CopyFrom(_OK)
        except REFUSED as refused:
            result.status.CopyFrom(failed(refused))

    async def _end(self, topic: str, group: str, text: str) -> None:
        """The delivery is over. Raises Refused."""
        named, where, handle = await self._delivery(topic, group, text)
        outcome: Outcome[None] = Outcome()
        delivery = PopDelivery(group, where, handle.queue_id, handle.offset, str(handle))
        if not self._acks.ack(delivery, outcome.tell):
            await outcome.get()
        self._held.release(group, where, named)

    async def _delivery(self, topic: str, group: str, text: str) -> tuple[ReceiptHandle, str, ReceiptHandle]:
        """The handle that the client has, the topic that the message lies in, and the handle that counts."""
        try:
            named = parse(text)
        except RemoteProtocolError as error:
            raise Rejected(Code.INVALID_RECEIPT_HANDLE, str(error)) from error
        where = real_topic(topic, group, named.kind)
        if where is None or named.offset < 0:
            raise Rejected(Code.INVALID_RECEIPT_HANDLE, f"{text[:200]!r} is not a receipt handle of this broker")
        await self._held.settled(group, where, named)
        handle = self._held.current(group, where, named)
        is_over = not handle.orderly and handle.visible_at <= self._clock.wall_ms()
        if is_over and not self._acks.may_go_on(
            PopDelivery(group, where, handle.queue_id, handle.offset, str(handle))
        ):  # fmt: skip
            raise Rejected(
                Code.INVALID_RECEIPT_HANDLE, "the invisible time of this delivery is over; the message comes again"
            )
        return named, where, handle

    async def change(self, caller: Caller, request: ChangeInvisibleDurationRequest) -> ChangeInvisibleDurationResponse:
        """The message comes again after another time; the answer has the new receipt handle."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        caller.demand(POP, (topic,), (group,))
        topic = _where(topic, request.lite_topic)
        asked = request.invisible_duration
        ms = asked.seconds * 1000 + asked.nanos // 1_000_000
        if not 0 <= ms <= LONGEST_INVISIBLE_MS:
            raise Rejected(Code.ILLEGAL_INVISIBLE_TIME, f"invisible_duration is {ms} ms; use 0 s to 12 h")
        named, where, handle = await self._delivery(topic, group, request.receipt_handle)
        outcome: Outcome[Renewed] = Outcome()
        at_once = self._acks.change_invisible_time(
            PopDelivery(group, where, handle.queue_id, handle.offset, str(handle)), ms,
            suspend=request.suspend, done=outcome.tell,
        )  # fmt: skip
        renewed = at_once if at_once is not None else await outcome.get()
        self._held.release(group, where, named)
        new = replace(
            handle, pop_time=renewed.pop_time, invisible_time=renewed.invisible_time,
            revive_queue=renewed.revive_queue,
            start_offset=handle.start_offset if handle.orderly else handle.offset,
        )  # fmt: skip
        return ChangeInvisibleDurationResponse(status=ok(), receipt_handle=_with_place(new, request.receipt_handle))

    async def forward(
        self, caller: Caller, request: ForwardMessageToDeadLetterQueueRequest
    ) -> ForwardMessageToDeadLetterQueueResponse:
        """The message goes to the dead letters of the group, and its delivery ends. A delivery that has ended before
        makes no second dead letter: the client may ask again."""
        topic, group = check_topic(request.topic.name), check_group(request.group.name)
        caller.demand(POP, (topic,), (group,))
        topic = _where(topic, request.lite_topic)
        named, where, handle = await self._delivery(topic, group, request.receipt_handle)
        delivery = PopDelivery(group, where, handle.queue_id, handle.offset, str(handle))
        await self._messaging.forward(caller.client, delivery, _log_offset_of(request.receipt_handle))
        self._held.release(group, where, named)
        return ForwardMessageToDeadLetterQueueResponse(status=ok())


def _where(topic: str, lite_topic: str) -> str:
    """Where a message lies that a client names. ``lite_topic``: empty for one of the topic itself. Raises Rejected."""
    return lite_queue(topic, check_lite(lite_topic)) if lite_topic else topic


def _log_offset_of(handle: str) -> int | None:
    """The ninth field, which doors of gRPC add."""
    rest = handle.split(" ")[8:]
    return int(rest[0]) if rest and rest[0].isdigit() else None


def _with_place(handle: ReceiptHandle, earlier: str) -> str:
    """With the place in the log, which the handle before had as its ninth field."""
    rest = earlier.split(" ")[8:]
    return " ".join([str(handle), *rest])
