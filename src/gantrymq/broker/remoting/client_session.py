"""A client that is connected by the remoting protocol, and the messages that the broker sends to it.

Source: Broker2Client, ReplyMessageProcessor.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.broker.client import Check
from gantrymq.broker.pushes import (
    AnswerDone,
    ConsumerAnswer,
    DirectConsumption,
    OffsetReset,
    PositionsDone,
    Reply,
    ReplyDone,
    RunningInfoQuestion,
)
from gantrymq.broker.remoting.client_calls import Answered, ClientCalls
from gantrymq.errors import RemoteProtocolError
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import OffsetsByQueue, PositionsByClient, key_of, queue_of
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, encode_request
from gantrymq.protocol.headers.consumer import ConsumerIdsChanged
from gantrymq.protocol.headers.lite import NotifyUnsubscribeLite
from gantrymq.protocol.headers.send import PushReply
from gantrymq.protocol.headers.tools import ClientOfGroup, ConsumeDirectly, GetConsumerStatus, ResetOffset
from gantrymq.protocol.headers.transaction import CheckTransactionState
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import encode_stored
from gantrymq.remoting.session import Host, Session
from gantrymq.runtime.network import Link


class ClientSession(Session):
    """One connection: to operations a ``broker.client.Connection``, to the remoting door a session."""

    __slots__ = ("_calls", "address", "host")

    def __init__(self, calls: ClientCalls, server: Host, number: int) -> None:
        super().__init__(server, number)
        self._calls = calls
        self.address = ""
        self.host = b""

    @property
    def protocol(self) -> str:
        return "remoting"

    def connected(self, link: Link) -> None:
        super().connected(link)
        self.address = link.peer
        self.host = pack_host(link.peer)

    # Notices and questions to consumers, and replies to producers.

    def members_changed(self, group: str) -> None:
        self._notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumerIdsChanged(consumer_group=group))

    def lite_topic_taken(self, group: str, client_id: str, lite_topic: str) -> None:
        """Another client of the group reads a lite topic now, which only one may read."""
        header = NotifyUnsubscribeLite(lite_topic=lite_topic, consumer_group=group, client_id=client_id)
        self._notify(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, header)

    def reset_offsets(self, reset: OffsetReset) -> None:
        header = ResetOffset(
            topic=reset.topic, group=reset.group, timestamp=reset.timestamp_ms, is_force=reset.force
        )  # fmt: skip
        body = OffsetsByQueue(offset_table={key_of(queue): offset for queue, offset in reset.offsets.items()})
        self._notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body.encode())

    def running_info(self, question: RunningInfoQuestion, seconds: float, done: AnswerDone) -> None:
        header = ClientOfGroup(
            consumer_group=question.group, client_id=question.client_id, jstack_enable=question.with_stacks
        )
        self._calls.ask(self, RequestCode.GET_CONSUMER_RUNNING_INFO, header, _handed_on(done), seconds=seconds)

    def consume_directly(self, question: DirectConsumption, seconds: float, done: AnswerDone) -> None:
        header = ConsumeDirectly(
            consumer_group=question.group, client_id=question.client_id, msg_id=question.message_id,
            broker_name=question.broker_name, topic=question.topic, topic_sys_flag=question.topic_sys_flag,
            group_sys_flag=question.group_sys_flag,
        )  # fmt: skip
        body = encode_stored(question.message) if question.message is not None else b""
        self._calls.ask(self, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, _handed_on(done), body, seconds=seconds)

    def positions(self, group: str, topic: str, seconds: float, done: PositionsDone) -> None:
        header = GetConsumerStatus(topic=topic, group=group)
        self._calls.ask(
            self, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header, lambda answer: done(_positions(answer)),
            seconds=seconds,
        )  # fmt: skip

    def hand_reply(self, reply: Reply, seconds: float, done: ReplyDone) -> None:
        message = reply.message
        header = PushReply(
            producer_group=message.producer_group, topic=message.topic, default_topic=message.default_topic,
            default_topic_queue_nums=message.default_topic_queue_nums, queue_id=message.queue_id,
            sys_flag=message.sys_flag, born_timestamp=message.born_timestamp, flag=message.flag,
            properties=reply.properties, reconsume_times=message.reconsume_times, unit_mode=message.unit_mode,
            born_host=reply.born_address, store_host=reply.store_address, store_timestamp=reply.store_timestamp,
        )  # fmt: skip
        self._calls.ask(
            self, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, lambda answer: done(_problem(answer)), reply.body,
            seconds=seconds,
        )  # fmt: skip

    # The check-back.

    def ask(self, check: Check) -> None:
        self.send(check_frame(check, self.next_opaque()))

    def _notify(self, code: RequestCode, header: Header, body: bytes = b"") -> None:
        if self.alive and self.writable:
            self.send(encode_request(code, self.next_opaque(), header, body, one_way=True))


def _handed_on(done: AnswerDone) -> Answered:
    def answered(answer: Command | None) -> None:
        if answer is None:
            done(None)
        else:
            done(ConsumerAnswer(answer.code, answer.body, answer.remark, answer.ext_fields()))

    return answered


def _positions(answer: Command | None) -> Mapping[MessageQueue, int] | None:
    if answer is None or answer.code != ResponseCode.SUCCESS or not answer.body:
        return None
    try:
        table = PositionsByClient.decode(answer.body).message_queue_table
        return {queue_of(key): offset for key, offset in table.items()}
    except RemoteProtocolError:
        return None


def _problem(answer: Command | None) -> str | None:
    """Why a reply was not taken; None when it was."""
    if answer is None:
        return "it did not answer"
    if answer.code == ResponseCode.SUCCESS:
        return None
    return answer.remark or f"it answered with code {answer.code}"


def check_frame(check: Check, opaque: int) -> bytes:
    """The one-way request. The client answers it with END_TRANSACTION, which has a number of its own."""
    key = check.unique_key or None
    header = CheckTransactionState(
        tran_state_table_offset=check.queue_offset,
        commit_log_offset=check.log_offset,
        msg_id=key,
        transaction_id=key,
        offset_msg_id=offset_message_id(check.store_host, check.log_offset),
        # Clients copy this into their answer, which is authorised by it: the real topic, not the half topic (hole 22).
        topic=check.topic,
        bname=check.broker_name or None,
    )
    return encode_request(RequestCode.CHECK_TRANSACTION_STATE, opaque, header, check.message, one_way=True)
