"""Lite topics over remoting. Every broker of the topic hears what a client reads; each lite topic lies on one of them.

Source: LiteSubscriptionService, LiteSubscriptionCtlProcessor, PopLiteMessageProcessor of 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.lite import tell_evicted
from gantrymq.broker.grpc.messaging import LiteChange, Popped
from gantrymq.broker.pop.lite.starts import LiteStart, StartKind
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.values import PopDelivery, PopRequest
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import RemoteProtocolError
from gantrymq.message import properties
from gantrymq.message.lite_topics import LITE_QUEUE, lite_queue
from gantrymq.message.receipt_handle import NORMAL, ReceiptHandle
from gantrymq.protocol.bodies.lite import LiteAction, LiteSubscriptionItem, LiteSubscriptions, OffsetOption
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.lite import NotifyUnsubscribeLite, PopLiteMessage, PopLiteMessageAnswer
from gantrymq.protocol.pop_texts import read_lite_order_counts
from gantrymq.protocol.stored_message import scan
from gantrymq.proxy.cluster import Cluster
from gantrymq.remoting.channel import ClientChannel
from gantrymq.store.queues.multi_dispatch import further_places

log = logging.getLogger("gantrymq.proxy")

_OPTIONS: Final = {
    StartKind.LAST: OffsetOption(value=0), StartKind.MIN: OffsetOption(value=1), StartKind.MAX: OffsetOption(value=2),
}  # fmt: skip
_TYPES: Final = {StartKind.OFFSET: "OFFSET", StartKind.TAIL: "TAIL_N", StartKind.TIME: "TIMESTAMP"}


class RemoteLite:
    """Passes on what clients say about the lite topics that they read, and what brokers say about these."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics: dict[LiteReader, set[str]] = {}
        """Of each reader, so that it can leave them when its client says goodbye."""

    async def change(self, reader: LiteReader, change: LiteChange) -> None:
        """Raises Refused as a broker does. A broker that is away hears of it when the client repeats its list."""
        if change.action is LiteAction.COMPLETE_REMOVE:
            self._topics.pop(reader, None)
        else:
            self._topics.setdefault(reader, set()).add(change.topic)
        route = await self._cluster.route(change.topic)
        names = [broker.broker_name for broker in route.broker_datas if broker.master is not None]
        said = await asyncio.gather(*(self._tell(name, reader, change) for name in names))
        refusals = [refused for refused in said if refused is not None]
        if len(refusals) == len(said):
            raise (
                refusals[0]
                if refusals
                else Refused(Refusal.UNAVAILABLE, f"no broker of topic {change.topic} has a master")
            )
        for refused in refusals:
            if refused.reason is not Refusal.UNAVAILABLE:
                raise refused

    async def _tell(self, broker_name: str, reader: LiteReader, change: LiteChange) -> Refused | None:
        item = LiteSubscriptionItem(
            action=change.action, client_id=client_id_of(reader), group=reader.group, topic=change.topic,
            lite_topic_set=list(change.lite_topics), offset_option=_option_of(change.start),
            version=self._cluster.clock.wall_ms(),
        )  # fmt: skip
        body = LiteSubscriptions(subscription_set=[item]).encode()
        try:
            await self._cluster.ask(
                broker_name, RequestCode.LITE_SUBSCRIPTION_CTL, None, body,
                what=f"lite topics of {change.topic} on {broker_name}",
            )  # fmt: skip
        except Refused as refused:
            return refused
        return None

    def gone(self, client: GrpcClient, *, says_goodbye: bool) -> None:
        """One that is only silent may speak with another proxy. Brokers forget it behind their own time."""
        for reader in [reader for reader in self._topics if reader.client == client.name]:
            topics = self._topics.pop(reader)
            for topic in topics if says_goodbye else ():
                leave = LiteChange(LiteAction.COMPLETE_REMOVE, topic)
                self._cluster.start_task("leave lite topics", self._leave(reader, leave))

    async def _leave(self, reader: LiteReader, leave: LiteChange) -> None:
        try:
            await self.change(reader, leave)
        except Refused as refused:
            log.info("a client that went still has its lite topics for a while: %s", refused)


def pass_eviction(clients: GrpcClients, channel: ClientChannel, command: Command) -> None:
    """A broker says that another client has a lite topic now."""
    try:
        said = command.header(NotifyUnsubscribeLite)
    except RemoteProtocolError as error:
        log.warning("a notification of the broker at %s cannot be read: %s", channel.address, error)
        return
    for client in clients:
        if client.name and _shown(client.name) == said.client_id:
            tell_evicted(clients, client.name, said.lite_topic)


def client_id_of(reader: LiteReader) -> str:
    """How brokers know it: with its user, so that nobody takes what is meant for the client of another user."""
    return _shown(reader.client)


def _shown(name: str) -> str:
    """``name``: of a client (``GrpcClient.name``)."""
    client_id, _, user = name.rpartition("\n")
    return f"{client_id}@{user}" if user else client_id


def asked_of(reader: LiteReader, broker_name: str, wanted: PopRequest, now_ms: int) -> PopLiteMessage:
    """The header of a pop."""
    return PopLiteMessage(
        client_id=client_id_of(reader), consumer_group=wanted.group, topic=wanted.topic, max_msg_num=wanted.count,
        invisible_time=wanted.invisible_ms, poll_time=wanted.poll_ms, born_time=now_ms, attempt_id=wanted.attempt_id,
        bname=broker_name,
    )  # fmt: skip


def popped_of(answer: Command, group: str, topic: str, broker_name: str) -> Iterator[Popped]:
    """The messages of an answer. Raises RemoteProtocolError when one does not say where in its lite topic it lies."""
    header = answer.header(PopLiteMessageAnswer)
    counts = read_lite_order_counts(header.order_count_info)
    for number, stored in enumerate(scan(answer.body)):
        queue = lite_queue(topic, properties.find(stored.properties_text, properties.LITE_TOPIC) or "")
        offset = dict(further_places(stored.properties_text)).get(queue)
        if offset is None:
            raise RemoteProtocolError(f"the answer to a pop does not say where in {queue} a message lies")
        handle = ReceiptHandle(
            offset, header.pop_time, header.invisible_time, header.revive_qid, NORMAL, broker_name, LITE_QUEUE, offset
        )
        earlier = counts[number] if number < len(counts) else 0
        yield Popped(stored, PopDelivery(group, queue, LITE_QUEUE, offset, str(handle)), handle, earlier)


def _option_of(start: LiteStart | None) -> OffsetOption | None:
    if start is None:
        return None
    return _OPTIONS.get(start.kind) or OffsetOption(type=_TYPES[start.kind], value=start.number)
