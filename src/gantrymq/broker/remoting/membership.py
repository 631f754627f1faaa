"""Who is there and who reads what in order: 34, 35, 38, 41, 42, and the notice 40.

Source: ClientManageProcessor, ConsumerManageProcessor, RebalanceLockManager; docs/protocol.md#groups,
docs/protocol.md#locks-of-queues.
"""

from __future__ import annotations

import logging

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, Member, ProducerGroups
from gantrymq.broker.registries.filters import ConsumerFilters
from gantrymq.broker.registries.groups import Group, Groups
from gantrymq.broker.registries.queue_locks import QueueLocks
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.upkeep.registration import Announce
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import system_topics
from gantrymq.protocol.bodies.heartbeat import ConsumerData, ConsumerIdList, HeartbeatData, MessageModel
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, encode_request, encode_response
from gantrymq.protocol.headers.consumer import (
    ConsumerIdsChanged,
    ConsumerListByGroup,
    HeartBeatAnswer,
    UnregisterClient,
)
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.broker")


class _NoFields(Header, frozen=True, kw_only=True):
    """A header without fields: the answer has ``"extFields":{}`` then, which some clients need."""


class MembershipProcessor:
    """Handles heartbeats, departures, and what members of a group ask to share its queues."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        producers: ProducerGroups,
        consumers: ConsumerGroups,
        filters: ConsumerFilters,
        locks: QueueLocks,
        clock: Clock,
        announce: Announce,
    ) -> None:
        self._announce = announce
        self._config = config
        self._topics = topics
        self._groups = groups
        self._producers = producers
        self._consumers = consumers
        self._filters = filters
        self._locks = locks
        self._clock = clock

    def heartbeat(self, session: ClientSession, command: Command) -> bytes | None:
        """HEART_BEAT. A group's first one makes its retry topic, and is answered when the name servers know that: the
        client looks for its route next, and then only every 30 s.
        """
        data = HeartbeatData.decode(command.body)
        if not data.client_id:
            raise Refused(Refusal.FAILED, "the heartbeat has no clientID")
        member = Member(session, data.client_id, command.language or "OTHER", command.version, self._clock.monotonic())
        keep = bool(data.without_sub)
        topic_made = False
        for consumer in data.consumer_data_set:
            topic_made = self._register_consumer(consumer, member, keep) or topic_made
        for producer in data.producer_data_set:
            self._producers.register(producer.group_name, member)
        header = HeartBeatAnswer(heart_beat_v2=True, subscription_changed=not keep)
        answer = encode_response(command, ResponseCode.SUCCESS, header)
        if not topic_made:
            return answer
        self._announce(lambda: session.send(answer))
        return None

    def _register_consumer(self, data: ConsumerData, member: Member, keep: bool) -> bool:
        """True when the group's retry topic is new."""
        try:
            settings = self._groups.find(data.group_name)
        except MessageIllegal as error:
            raise Refused(Refusal.FAILED, str(error)) from error
        if settings is None:
            log.warning(
                "consumer group %s of %s does not exist and may not be made", data.group_name, member.session.peer
            )
            return False
        topic_made = data.message_model is not MessageModel.BROADCASTING and self._make_retry_topic(settings)
        if self._consumers.register(data, member, keep_subscriptions=keep):
            self._notify(data.group_name)
        if not keep:
            self._filters.subscribed(data.group_name, data.subscription_data_set)
        return topic_made

    def _make_retry_topic(self, settings: Group) -> bool:
        """False when it is there already, or could not be made."""
        topic = system_topics.retry_topic(settings.group_name)
        if self._topics.exists(topic):
            return False
        try:
            self._topics.ensure(topic, max(settings.retry_queue_nums, 1))
        except StoreError as error:
            # A full disk must not end the membership of a group; the next heartbeat tries again.
            log.warning("the retry topic of group %s could not be made: %s", settings.group_name, error)
            return False
        return True

    def _notify(self, group_name: str) -> None:
        """Tell every member that the queues must be shared anew."""
        group = self._consumers.get(group_name)
        settings = self._groups.get(group_name)
        if group is None or group.message_model is MessageModel.BROADCASTING:
            return
        if not self._config.notify_consumer_ids_changed_enable:
            return
        if settings is not None and not settings.notify_consumer_ids_changed_enable:
            return
        header = ConsumerIdsChanged(consumer_group=group_name)
        for member in group.members.values():
            session = member.session
            if session.alive and session.writable:
                session.send(
                    encode_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, session.next_opaque(), header, one_way=True)
                )

    def unregister(self, session: ClientSession, command: Command) -> bytes:
        header = command.header(UnregisterClient)
        if header.producer_group:
            self._producers.unregister(header.producer_group, session)
        if header.consumer_group and self._consumers.unregister(header.consumer_group, session):
            self._shrunk(header.consumer_group)
        return encode_response(command, ResponseCode.SUCCESS, _NoFields())

    def session_closed(self, session: ClientSession) -> None:
        """A connection ended: its client is gone from all groups."""
        self._producers.session_closed(session)
        for group in self._consumers.session_closed(session):
            self._shrunk(group)

    def _shrunk(self, group: str) -> None:
        """A group lost a member."""
        if self._consumers.get(group) is None:
            self._filters.left(group)
        self._notify(group)

    def expire(self) -> None:
        """Take out members that sent no heartbeat for too long, and locks that ran out."""
        now = self._clock.monotonic()
        before = now - self._config.channel_expired_timeout / 1000
        self._producers.expire(before)
        for group in self._consumers.expire(before):
            self._shrunk(group)
        self._locks.expire(now)

    def consumer_list(self, session: ClientSession, command: Command) -> bytes:
        group = command.header(ConsumerListByGroup).consumer_group
        client_ids = self._consumers.client_ids(group)
        if not client_ids:
            raise Refused(Refusal.FAILED, f"no consumer for this group, {group}")
        body = ConsumerIdList(consumer_id_list=client_ids).encode()
        return encode_response(command, ResponseCode.SUCCESS, _NoFields(), body)

    def lock(self, session: ClientSession, command: Command) -> bytes:
        request = LockBatch.decode(command.body)
        held = self._locks.lock(request.consumer_group, request.client_id, request.mq_set, self._clock.monotonic())
        return encode_response(command, ResponseCode.SUCCESS, body=LockBatchAnswer(lock_ok_mq_set=held).encode())

    def unlock(self, session: ClientSession, command: Command) -> bytes:
        request = LockBatch.decode(command.body)
        self._locks.unlock(request.consumer_group, request.client_id, request.mq_set)
        return encode_response(command, ResponseCode.SUCCESS)
