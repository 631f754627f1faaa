"""CONSUMER_SEND_MSG_BACK (36): a consumer wants a message again later. Source: wire-protocol.md 6.4."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gantrymq.broker.delivery.delay_levels import park
from gantrymq.broker.delivery.retry import plan_retry
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import PERM_READ_WRITE, Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.upkeep.statistics import Statistics
from gantrymq.errors import GantryError, StoreError
from gantrymq.message import flags, properties, system_topics
from gantrymq.protocol.bodies.topics import PERM_WRITE
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.rng import Rng
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord

CLIENT_LIMIT_SINCE_VERSION: Final = 121
"""3.4.9: older clients do not know maxReconsumeTimes."""


class SendBackProcessor:
    """Handles CONSUMER_SEND_MSG_BACK; answered when the copy is stored as safely as a message."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        rng: Rng,
        clock: Clock,
        delays_ms: Sequence[int],
        statistics: Statistics,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._rng = rng
        self._clock = clock
        self._delays_ms = delays_ms
        self._statistics = statistics

    def send_back(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(SendBack)
        group = self._groups.find(header.group)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group not exist, {header.group}")
        if group.retry_queue_nums <= 0:
            return encode_response(command, ResponseCode.SUCCESS)
        record = self._record(header, command.version, group.retry_queue_nums, group.retry_max_times)
        try:
            placement = self._store.append((record,))[0]
        except GantryError as error:
            raise Refused(Refusal.FAILED, str(error)) from error
        self._statistics.sent_back(properties.find(record.properties, properties.RETRY_TOPIC) or "", header.group)
        self._store.safety.when_stored(placement.end, True, partial(_finish, session, command))
        return None

    def _record(self, header: SendBack, version: int, retry_queues: int, group_limit: int) -> NewRecord:
        message = self._store.read(header.offset)
        if message is None or message.topic in system_topics.TRANSACTION_TOPICS:
            raise Refused(Refusal.FAILED, f"look message by offset failed, {header.offset}")
        limit = group_limit
        if version >= CLIENT_LIMIT_SINCE_VERSION and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        plan = plan_retry(
            message,
            properties.without(message.properties_text, properties.BROKER_ONLY),
            header.group,
            header.delay_level,
            limit,
            self._rng.below(retry_queues),
            offset_message_id(pack_host(message.store_host), message.log_offset),
        )
        queues = 1 if plan.topic.startswith(system_topics.DEAD_LETTER_PREFIX) else retry_queues
        topic = self._topics.ensure(plan.topic, queues, PERM_READ_WRITE)
        if not topic.perm & PERM_WRITE:
            raise Refused(Refusal.NOT_PERMITTED, f"the topic[{plan.topic}] sending message is forbidden")
        record = NewRecord(
            plan.topic, plan.queue_id, message.body, plan.properties_text, message.born_timestamp,
            pack_host(message.born_host), message.flag, message.sys_flag & ~flags.TRANSACTION_MASK,
            plan.reconsume_times,
        )  # fmt: skip
        if plan.delay_level <= 0:
            return record
        return park(record, plan.delay_level, self._delays_ms, self._clock.wall_ms())


def _finish(session: ClientSession, command: Command, error: StoreError | None) -> None:
    if command.is_one_way:
        return
    if error is None:
        session.send(encode_response(command, ResponseCode.SUCCESS))
    else:
        session.send(encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error)))
