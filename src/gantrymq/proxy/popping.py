"""POP over remoting: receives, acknowledges, prolongs. Source: ConsumerProcessor; docs/protocol.md#pop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final

from gantrymq.broker.grpc.local import GIVEN_BACK_MS, POLLING_FULL, tag_test
from gantrymq.broker.grpc.messaging import Popped
from gantrymq.broker.grpc.statuses import Rejected
from gantrymq.broker.pop.holds import NOBODY, Hold
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.values import AckDone, PopDelivery, PopRequest, RenewDone, Renewed
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import RemoteProtocolError
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.message import properties
from gantrymq.message.lite_topics import is_lite_queue, lite_topic_of, parent_of
from gantrymq.message.receipt_handle import NORMAL, ReceiptHandle, kind_of, parse, real_topic
from gantrymq.message.system_topics import normal_topic
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.lite import PopLiteMessage
from gantrymq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeAnswer,
    PopMessage,
    PopMessageAnswer,
)
from gantrymq.protocol.pop_texts import read_order_counts, read_starts
from gantrymq.protocol.stored_message import scan
from gantrymq.proxy import lite
from gantrymq.proxy.cluster import Cluster

log = logging.getLogger("gantrymq.proxy")

NOTHING: Final = frozenset({ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_FULL})
"""Answers to a pop that found no message."""
ANSWERS: Final = frozenset({ResponseCode.SUCCESS, *NOTHING})


class RemoteDeliveries:
    """See ``broker.grpc.messaging.Deliveries``. Apache's brokers keep no notes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def ack(self, delivery: PopDelivery, done: AckDone) -> bool:
        self._begin("ack", self._ack(delivery, done))
        return False

    def change_invisible_time(
        self, delivery: PopDelivery, invisible_ms: int, *, suspend: bool, done: RenewDone, hold: Hold = NOBODY
    ) -> Renewed | None:
        self._begin("change invisible time", self._change(delivery, invisible_ms, done, hold, suspend=suspend))
        return None

    def may_go_on(self, delivery: PopDelivery) -> bool:
        """The broker decides. One of Apache's would pass over an acknowledgement that comes late, and say nothing."""
        return self.notes(parse(delivery.receipt_handle).broker_name)

    def notes(self, broker_name: str) -> bool:
        """Whether that broker keeps a note of a hold, so that every door may end the delivery with its first handle."""
        return not self._cluster.is_apache(broker_name)

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._cluster.start_task(name, work)

    async def _ack(self, delivery: PopDelivery, done: AckDone) -> None:
        handle = parse(delivery.receipt_handle)
        broker = handle.broker_name
        is_over = not handle.orderly and handle.visible_at <= self._cluster.clock.wall_ms()
        topic, lite_topic = place_of(delivery)
        header = AckMessage(
            consumer_group=delivery.group, topic=topic, queue_id=delivery.queue_id,
            extra_info=delivery.receipt_handle, offset=delivery.offset, lite_topic=lite_topic, bname=broker,
            in_hand=is_over or None,
        )  # fmt: skip
        try:
            await self._cluster.ask(broker, RequestCode.ACK_MESSAGE, header, what="acknowledgement")
        except Refused as refused:
            done(refused)
        else:
            done(None)

    async def _change(
        self, delivery: PopDelivery, ms: int, done: RenewDone, hold: Hold, *, suspend: bool
    ) -> None:  # fmt: skip
        broker = parse(delivery.receipt_handle).broker_name
        topic, lite_topic = place_of(delivery)
        header = ChangeInvisibleTime(
            consumer_group=delivery.group, topic=topic, queue_id=delivery.queue_id,
            extra_info=delivery.receipt_handle, offset=delivery.offset, invisible_time=ms, lite_topic=lite_topic,
            suspend=suspend, bname=broker, holder=hold.holder or None,
            first_pop=hold.first_pop if hold.holder else None,
        )  # fmt: skip
        try:
            answer = await self._cluster.ask(
                broker, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, what="change of the invisible time"
            )
            said = answer.header(ChangeInvisibleTimeAnswer)
        except Refused as refused:
            done(refused)
        except RemoteProtocolError as error:
            done(Refused(Refusal.FAILED, str(error)))
        else:
            done(Renewed(said.pop_time, said.invisible_time, said.revive_qid))


class RemotePops:
    """Receives from one broker at a time."""

    def __init__(self, cluster: Cluster, deliveries: RemoteDeliveries) -> None:
        self._cluster = cluster
        self._deliveries = deliveries

    async def pop(self, broker_name: str, wanted: PopRequest, reader: LiteReader | None) -> Sequence[Popped]:
        """See ``Messaging.pop``. The request goes on when this is cancelled: what it brings is given back."""
        task = self._cluster.start_task("pop", self._ask(broker_name, wanted, reader), told=Refused)
        try:
            answer = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: self._nobody_got(broker_name, wanted, reader, done))
            raise
        if answer.code == ResponseCode.POLLING_FULL:
            raise Rejected(Code.TOO_MANY_REQUESTS, POLLING_FULL)
        return self._wanted_of(broker_name, wanted, reader, answer)

    async def _ask(self, broker_name: str, wanted: PopRequest, reader: LiteReader | None) -> Command:
        code, header = self._question(broker_name, wanted, reader)
        return await self._cluster.ask(
            broker_name, code, header, what=f"receive from {wanted.topic} on {broker_name}",
            accept=ANSWERS, timeout_ms=wanted.poll_ms + self._cluster.call_timeout_ms,
        )  # fmt: skip

    def _question(
        self, broker_name: str, wanted: PopRequest, reader: LiteReader | None
    ) -> tuple[RequestCode, PopMessage | PopLiteMessage]:
        now_ms = self._cluster.clock.wall_ms()
        if reader is not None:
            return RequestCode.POP_LITE_MESSAGE, lite.asked_of(reader, broker_name, wanted, now_ms)
        return RequestCode.POP_MESSAGE, PopMessage(
            consumer_group=wanted.group, topic=wanted.topic, queue_id=wanted.queue_id, max_msg_nums=wanted.count,
            invisible_time=wanted.invisible_ms, poll_time=wanted.poll_ms, born_time=now_ms,
            init_mode=int(wanted.from_start), exp_type=wanted.expression_type, exp=wanted.expression,
            order=wanted.order, attempt_id=wanted.attempt_id, bname=broker_name,
        )  # fmt: skip

    def _nobody_got(
        self, broker_name: str, wanted: PopRequest, reader: LiteReader | None, task: asyncio.Task[Command]
    ) -> None:
        if task.cancelled() or task.exception() is not None:
            return
        for one in self._wanted_of(broker_name, wanted, reader, task.result()):
            self._deliveries.change_invisible_time(one.delivery, GIVEN_BACK_MS, suspend=True, done=_ignored)

    def _wanted_of(
        self, broker_name: str, wanted: PopRequest, reader: LiteReader | None, answer: Command
    ) -> list[Popped]:  # fmt: skip
        """The messages, but for those of which only the hash of the tag is the same: nobody wants these."""
        if answer.code != ResponseCode.SUCCESS:
            return []
        wants, found = tag_test(wanted), []
        popped = (
            popped_of(answer, wanted.group, broker_name)
            if reader is None
            else lite.popped_of(answer, wanted.group, wanted.topic, broker_name)
        )
        for one in popped:
            if wants(one.message.properties_text):
                found.append(one)
            else:
                self._deliveries.ack(one.delivery, _not_awaited)
        return found


def place_of(delivery: PopDelivery) -> tuple[str, str | None]:
    """How requests name where a message lies: its topic, and its lite topic."""
    queue = delivery.topic
    return (parent_of(queue), lite_topic_of(queue)) if is_lite_queue(queue) else (queue, None)


def popped_of(answer: Command, group: str, broker_name: str) -> Iterator[Popped]:
    """The messages of an answer. Raises RemoteProtocolError when it does not say what their handles consist of."""
    header = answer.header(PopMessageAnswer)
    starts, counts = read_starts(header.start_offset_info), read_order_counts(header.order_count_info)
    for stored in scan(answer.body):
        kind, text = kind_of(stored.topic), properties.find(stored.properties_text, properties.POP_CHECK_POINT)
        if kind == NORMAL and text is not None:  # one that came back has its handle from the broker
            handle = parse(text)
        else:
            start = starts.get((kind, stored.queue_id))
            if start is None:
                raise RemoteProtocolError(f"the answer to a pop does not say where its batch of {stored.topic} begins")
            handle = ReceiptHandle(
                start, header.pop_time, header.invisible_time, header.revive_qid, kind, broker_name, stored.queue_id,
                stored.queue_offset,
            )  # fmt: skip
        topic = real_topic(normal_topic(stored.topic, group), group, handle.kind) or stored.topic
        delivery = PopDelivery(group, topic, handle.queue_id, handle.offset, str(handle))
        earlier = counts.get((stored.queue_id, stored.queue_offset), 0)
        yield Popped(stored, delivery, handle, earlier)


def _not_awaited(refused: Refused | None) -> None:
    """It comes again if this failed."""


def _ignored(outcome: Renewed | Refused) -> None:
    """It becomes visible by itself."""
