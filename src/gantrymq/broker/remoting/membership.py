"""Heartbeats, members of groups and locks of queues: 34, 35, 38, 41, 42, 46."""

from __future__ import annotations

from gantrymq.broker.operations.members import Members
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.bodies.heartbeat import CheckClient, ConsumerIdList, HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, Header, encode_response
from gantrymq.protocol.headers.consumer import ConsumerListByGroup, HeartBeatAnswer, UnregisterClient


class _NoFields(Header, frozen=True, kw_only=True):
    """A header without fields: the answer has ``"extFields":{}`` then, which some clients need."""


class MembershipHandler:
    """Heartbeats, members that leave, and what members of a group ask to share its queues."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def heartbeat(self, session: ClientSession, command: Command) -> None:
        """HEART_BEAT."""
        data = HeartbeatData.of_request(command.body)
        header = HeartBeatAnswer(heart_beat_v2=True, subscription_changed=not data.without_sub)
        answer = encode_response(command, ResponseCode.SUCCESS, header)
        self._members.heartbeat(
            session, data, command.language or "OTHER", command.version, lambda: session.answer(command, answer)
        )

    def check_client(self, session: ClientSession, command: Command) -> bytes:
        """CHECK_CLIENT_CONFIG."""
        request = CheckClient.of_request(command.body) if command.body else None
        if request is not None and request.subscription_data is not None:
            self._members.check_subscription(request.group, request.subscription_data)
        return encode_response(command, ResponseCode.SUCCESS)

    def unregister(self, session: ClientSession, command: Command) -> bytes:
        """UNREGISTER_CLIENT."""
        header = command.header(UnregisterClient)
        self._members.unregister(session, header.producer_group, header.consumer_group)
        return encode_response(command, ResponseCode.SUCCESS, _NoFields())

    def consumer_list(self, session: ClientSession, command: Command) -> bytes:
        """GET_CONSUMER_LIST_BY_GROUP."""
        client_ids = self._members.client_ids(command.header(ConsumerListByGroup).consumer_group)
        body = ConsumerIdList(consumer_id_list=client_ids).encode()
        return encode_response(command, ResponseCode.SUCCESS, _NoFields(), body)

    def lock(self, session: ClientSession, command: Command) -> bytes:
        """LOCK_BATCH_MQ."""
        request = LockBatch.of_request(command.body)
        held = self._members.lock(
            request.consumer_group, request.client_id, request.mq_set,
            ends_with_connection=bool(request.ends_with_connection),
        )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, body=LockBatchAnswer(lock_ok_mq_set=held).encode())

    def unlock(self, session: ClientSession, command: Command) -> bytes:
        """UNLOCK_BATCH_MQ."""
        request = LockBatch.of_request(command.body)
        self._members.unlock(request.consumer_group, request.client_id, request.mq_set)
        return encode_response(command, ResponseCode.SUCCESS)
