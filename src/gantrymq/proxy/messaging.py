"""The messages of a cluster: the port ``broker.grpc.messaging`` over remoting. It decides and keeps nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.grpc.local import NAMING_A_TRANSACTION
from gantrymq.broker.grpc.messaging import BrokerTopic, GroupRules, LiteChange, Popped, Sent
from gantrymq.broker.grpc.outcome import Outcome
from gantrymq.broker.grpc.statuses import Rejected
from gantrymq.broker.operations.end_by_id import TransactionIds
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.values import PopDelivery, PopRequest
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.stored import Stored
from gantrymq.broker.submission import Submission
from gantrymq.errors import MessageIllegal, RemoteProtocolError
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.message import flags, properties, recall_handle
from gantrymq.message.heartbeat import Heartbeat
from gantrymq.message.receipt_handle import parse
from gantrymq.message.send_status import SendStatus
from gantrymq.message.system_topics import holds
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import STORED, RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.files.topics import PERM_READ
from gantrymq.protocol.headers.consumer import SendBack, SendBackAnswer
from gantrymq.protocol.headers.pull import ViewMessage
from gantrymq.protocol.headers.send import RecallMessage, RecallMessageAnswer, SendMessage, SendMessageAnswer
from gantrymq.protocol.message_ids import log_offset_of
from gantrymq.protocol.stored_message import decode_record
from gantrymq.proxy.cluster import Cluster
from gantrymq.proxy.config import ProxyConfig
from gantrymq.proxy.lite import RemoteLite
from gantrymq.proxy.popping import RemoteDeliveries, RemotePops, place_of
from gantrymq.proxy.settings import ClusterSettings
from gantrymq.proxy.transactions import HalfPlace, Transactions

DEAD_LETTER: Final = -1
"""The delay level that means: to the dead letters at once."""
SEND_BACK_TIMEOUT_MS: Final = 5_000
"""Apache's value."""
_STATUSES: Final = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
}


class RemotingMessaging:
    """See ``Messaging``."""

    def __init__(self, config: ProxyConfig, cluster: Cluster, *, has_users: bool) -> None:
        """``has_users``: whether clients are judged. Brokers judge only the account of the proxy."""
        self._has_users = has_users
        self.body_max: Final = config.body_max
        self.checks_types: Final = config.checks_types
        self.deliveries: Final = RemoteDeliveries(cluster)
        self.lite: Final = RemoteLite(cluster)
        self._cluster = cluster
        self._settings = ClusterSettings(cluster)
        self._transactions = Transactions(cluster)
        self._pops = RemotePops(cluster, self.deliveries)
        self._turn = 0
        """Which broker is next, for clients that name none."""

    async def topic(self, name: str) -> Sequence[BrokerTopic]:
        return await self._settings.topic(name)

    async def group(self, name: str) -> GroupRules:
        return await self._settings.group(name)

    async def join(self, client: GrpcClient, heartbeat: Heartbeat) -> None:
        """Consumer groups get no member at the brokers: see ``proxy.cluster``."""
        await self._cluster.join(producer.group_name for producer in heartbeat.producer_data_set)

    # Sending.

    async def send(self, client: GrpcClient, broker_name: str, submission: Submission, body: bytes) -> Sent:
        header = SendMessage(
            producer_group=submission.producer_group, topic=submission.topic, default_topic=submission.default_topic,
            default_topic_queue_nums=submission.default_topic_queue_nums, queue_id=submission.queue_id,
            sys_flag=submission.sys_flag, born_timestamp=submission.born_timestamp, flag=submission.flag,
            properties=submission.properties, reconsume_times=0, unit_mode=False, batch=False, bname=broker_name,
        )  # fmt: skip
        answer = await self._cluster.ask(
            broker_name, RequestCode.SEND_MESSAGE_V2, header, body, what=f"send to {submission.topic}", accept=STORED
        )
        try:
            return _sent(answer, submission, broker_name)
        except RemoteProtocolError as error:
            raise Refused(Refusal.FAILED, f"the answer to a send cannot be read: {error}") from error

    async def topic_of(self, ids: TransactionIds, topic: str) -> str:
        """Without users nobody asks for the sake of permissions, and the question to the broker is spared."""
        return await self._transactions.topic_of(ids, topic) if self._has_users else topic

    async def end(
        self, client: GrpcClient, ids: TransactionIds, topic: str, resolution: Resolution, *, answers_check: bool
    ) -> None:
        with NAMING_A_TRANSACTION:
            await self._transactions.end(ids, topic, resolution, answers_check=answers_check)

    async def recall(self, client: GrpcClient, topic: str, handle: str) -> str:
        try:
            broker_name = recall_handle.decode(handle).broker_name
        except MessageIllegal as error:
            raise Rejected(Code.BAD_REQUEST, str(error)) from error
        await self._cluster.route(topic)  # so that the address of the broker is known
        answer = await self._cluster.ask(
            broker_name, RequestCode.RECALL_MESSAGE,
            RecallMessage(topic=topic, recall_handle=handle, producer_group=topic, bname=broker_name),
            what=f"recall of a message of {topic}",
        )  # fmt: skip
        return answer.header(RecallMessageAnswer).msg_id

    # Receiving.

    async def pop(
        self, receiver: Client, broker_name: str, wanted: PopRequest, reader: LiteReader | None
    ) -> Sequence[Popped]:
        if self._has_users and holds(wanted.topic) is not None and not (receiver.user and receiver.user.is_super):
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the topic {wanted.topic} holds messages of several topics, and only a broker judges each of them; "
                "receive them by remoting, or at the door of a broker",
            )
        return await self._pops.pop(broker_name or await self._readable(wanted.topic), wanted, reader)

    async def read_lite(self, reader: LiteReader, change: LiteChange) -> None:
        await self.lite.change(reader, change)

    async def _readable(self, topic: str) -> str:
        places = [place for place in await self._settings.topic(topic) if place.permission & PERM_READ]
        if not places:
            raise Rejected(Code.FORBIDDEN, f"the topic {topic} cannot be read")
        self._turn += 1
        return places[self._turn % len(places)].broker_name

    async def forward(self, client: GrpcClient, delivery: PopDelivery, log_offset: int | None) -> None:
        if log_offset is None:
            raise Rejected(
                Code.INVALID_RECEIPT_HANDLE, f"{delivery.receipt_handle!r} does not say where the message lies"
            )
        broker_name = parse(delivery.receipt_handle).broker_name
        if self._has_users:
            await self._check_place(broker_name, delivery, log_offset)
        header = SendBack(
            offset=log_offset, group=delivery.group, delay_level=DEAD_LETTER, origin_topic=place_of(delivery)[0],
            unit_mode=False, max_reconsume_times=0, bname=broker_name, receipt_handle=delivery.receipt_handle,
            popped_topic=delivery.topic, queue_id=delivery.queue_id, queue_offset=delivery.offset,
        )  # fmt: skip
        answer = await self._cluster.ask(
            broker_name, RequestCode.CONSUMER_SEND_MSG_BACK, header, what="move to the dead letters",
            timeout_ms=SEND_BACK_TIMEOUT_MS,
        )  # fmt: skip
        if answer.header(SendBackAnswer).ended:
            return
        # One of Apache's. A kill between these two requests makes two dead letters; the other order would lose one.
        outcome = Outcome[None]()
        if not self.deliveries.ack(delivery, outcome.tell):
            await outcome.get()

    async def _check_place(self, broker_name: str, delivery: PopDelivery, log_offset: int) -> None:
        """The client may read the topic that it names. Its handle, which it could have made, says where in the log the
        message lies; that has to be one of this topic. Raises Rejected."""
        header = ViewMessage(offset=log_offset, topic=delivery.topic)
        answer = await self._cluster.ask(broker_name, RequestCode.VIEW_MESSAGE_BY_ID, header, what="look at a message")
        record = decode_record(answer.body)
        topic, lite_topic = place_of(delivery)
        same = record.topic == topic and (
            lite_topic is not None or (record.queue_id, record.queue_offset) == (delivery.queue_id, delivery.offset)
        )
        if not same:
            raise Rejected(
                Code.INVALID_RECEIPT_HANDLE, f"{delivery.receipt_handle!r} does not say where its message lies"
            )


def _sent(answer: Command, submission: Submission, broker_name: str) -> Sent:
    said = answer.header(SendMessageAnswer)
    log_offset = int(log_offset_of(said.msg_id))
    key = properties.find(submission.properties or "", properties.UNIQ_KEY) or said.transaction_id or said.msg_id
    stored = Stored(
        log_offset, said.queue_offset, said.queue_id, key, said.recall_handle, _STATUSES[ResponseCode(answer.code)]
    )
    if not submission.sys_flag & flags.PREPARED:
        return Sent(stored, "")
    return Sent(stored, str(HalfPlace(log_offset, said.queue_offset, broker_name)))
