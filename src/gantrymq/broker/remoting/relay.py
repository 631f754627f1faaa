"""Questions of tools that only a client can answer; the broker hands them on: 223 (as 221), 307, 309.

Source: AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, Member
from gantrymq.broker.remoting.client_calls import CLIENT_SECONDS, ClientCalls
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.errors import RemoteProtocolError
from gantrymq.message import system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.bodies.progress import PositionsByClient
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, encode_response
from gantrymq.protocol.headers.tools import ClientOfGroup, ConsumeDirectly, GetConsumerStatus
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import encode_stored
from gantrymq.store.message_store import MessageStore

STATUS_SECONDS: Final = 5.0
"""How long the members of a group may take to say where they are."""


class RelayProcessor:
    """Hands requests on to a live member of a group, and its answer back."""

    def __init__(
        self, config: BrokerConfig, calls: ClientCalls, consumers: ConsumerGroups, store: MessageStore
    ) -> None:
        self._config = config
        self._calls = calls
        self._consumers = consumers
        self._store = store

    def running_info(self, session: ClientSession, command: Command) -> None:
        """GET_CONSUMER_RUNNING_INFO."""
        header = command.header(ClientOfGroup)
        self._hand_on(session, command, self._member(header.consumer_group, header.client_id), header)

    def consume_directly(self, session: ClientSession, command: Command) -> None:
        """CONSUME_MESSAGE_DIRECTLY: a member gets one message at once, whatever its group has consumed."""
        header = command.header(ConsumeDirectly)
        member = self._member(header.consumer_group, header.client_id)
        body = encode_stored(self._message(header.msg_id)) if header.msg_id else b""
        named = msgspec.structs.replace(header, broker_name=self._config.broker_name)
        self._hand_on(session, command, member, named, body)

    def _message(self, message_id: str) -> StoredMessage:
        offset = parse_offset_message_id(message_id)[1]
        message = self._store.read(offset)
        # A consumer must not get to see, by whatever way, what nobody has committed (X5).
        if message is None or message.topic in system_topics.TRANSACTION_TOPICS:
            raise Refused(Refusal.FAILED, f"no message that consumers may have lies at {offset}")
        return message

    def _member(self, group_name: str, client_id: str | None) -> Member:
        group = self._consumers.get(group_name)
        for member in group.members.values() if group is not None else ():
            if not client_id or member.client_id == client_id:
                return member
        raise Refused(Refusal.FAILED, f"The Consumer <{group_name}> <{client_id}> not online")

    def _hand_on(
        self, session: ClientSession, command: Command, member: Member, header: Header, body: bytes = b""
    ) -> None:
        def answered(answer: Command | None) -> None:
            if answer is None:
                why = f"consumer <{member.client_id}> did not answer within {CLIENT_SECONDS:g} s, or is gone"
                session.send(encode_response(command, ResponseCode.CONSUME_MSG_TIMEOUT, remark=why))
                return
            session.send(
                encode_response(command, answer.code, body=answer.body, remark=answer.remark, extra=answer.ext_fields())
            )

        self._calls.ask(member.session, RequestCode(command.code), header, answered, body)

    def positions(self, session: ClientSession, command: Command) -> None:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: where the members of a group are by their own account."""
        header = command.header(GetConsumerStatus)
        group = self._consumers.get(header.group)
        if group is None:
            raise Refused(Refusal.CONSUMER_OFFLINE, f"No Any Consumer online in the consumer group: [{header.group}]")
        wanted = header.client_addr
        asked = [member for member in group.members.values() if not wanted or member.client_id == wanted]
        _Collected(session, command, asked).ask(self._calls, GetConsumerStatus(topic=header.topic, group=header.group))


class _Collected:
    """The answers of several members; what has come when the last one has answered, or failed, is passed on."""

    def __init__(self, session: ClientSession, command: Command, members: Sequence[Member]) -> None:
        self._session = session
        self._command = command
        self._members = members
        self._left = len(members)
        self._found: dict[str, dict[str, int]] = {}

    def ask(self, calls: ClientCalls, header: Header) -> None:
        if not self._members:
            self._done()
        for member in self._members:
            calls.ask(
                member.session, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header, partial(self._answered, member),
                seconds=STATUS_SECONDS,
            )  # fmt: skip

    def _answered(self, member: Member, answer: Command | None) -> None:
        if answer is not None and answer.code == ResponseCode.SUCCESS and answer.body:
            # A client that says something else is shown as one that did not answer.
            with suppress(RemoteProtocolError):
                self._found[member.client_id] = PositionsByClient.decode(answer.body).message_queue_table
        self._left -= 1
        if not self._left:
            self._done()

    def _done(self) -> None:
        body = PositionsByClient(consumer_table=self._found)
        self._session.send(encode_response(self._command, ResponseCode.SUCCESS, body=body.encode()))
