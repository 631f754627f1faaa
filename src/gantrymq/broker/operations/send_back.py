"""Sending a message back: a consumer asks to get it again later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from gantrymq.broker.client import Client
from gantrymq.broker.delivery.delay_levels import park
from gantrymq.broker.delivery.retry import plan_retry
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import PERM_READ_WRITE, Topics
from gantrymq.errors import GantryError, StoreError
from gantrymq.message import flags, properties, system_topics
from gantrymq.protocol.files.topics import PERM_WRITE
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.runtime.rng import Rng
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import Use
from gantrymq.store.values import NewRecord

DEAD_LETTER_LEVEL: Final = -1
"""The delay level that sends a message to the dead letters at once."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A message that a group wants again."""

    group: str
    log_offset: int
    delay_level: int
    max_deliveries: int | None
    """How often the consumer wants it at most; None: as often as the settings of the group say."""


Copied: TypeAlias = Callable[[Refused | None], None]
"""Called once: with None when the copy is safe."""


class SendBacks:
    """Stores a copy for the group's retry topic, or for the dead letters."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        rng: Rng,
        time: SteadyTime,
        delays_ms: Sequence[int],
        counters: MessageCounters,
        rights: MessageRights | None,
    ) -> None:
        """``rights``: None: the broker has no users."""
        self._store = store
        self._topics = topics
        self._groups = groups
        self._rng = rng
        self._time = time
        self._delays_ms = delays_ms
        self._counters = counters
        self._rights = rights

    def send_back(self, client: Client, returned: Returned, copied: Copied) -> None:
        """``copied`` is called when the copy is safe, or with the reason why not. Raises Refused; then nothing was
        stored and ``copied`` is not called."""
        group = self._groups.find(returned.group)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group not exist, {returned.group}")
        if group.retry_queue_nums <= 0:
            copied(None)
            return
        record = self._record(client, returned, group.retry_queue_nums, group.retry_max_times)
        try:
            self._store.room.check(Use.COPY)
            placement = self._store.append((record,))[0]
        except GantryError as error:
            raise Refused(Refusal.FAILED, str(error)) from error
        topic = properties.find(record.properties, properties.RETRY_TOPIC) or ""
        self._counters.sent_back(topic, returned.group)
        if record.topic.startswith(system_topics.DEAD_LETTER_PREFIX):
            self._counters.gave_up(topic, returned.group)

        def stored(error: StoreError | None) -> None:
            copied(None if error is None else Refused(Refusal.FAILED, str(error)))

        self._store.safety.when_stored(placement.end, True, stored)

    def dead_letter(self, client: Client, group_name: str, log_offset: int) -> NewRecord | None:
        """A message as a dead letter, for somebody who writes it together with the end of a delivery; None when the
        group keeps none. Raises Refused."""
        group = self._groups.find(group_name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group not exist, {group_name}")
        if group.retry_queue_nums <= 0:
            return None
        returned = Returned(group_name, log_offset, DEAD_LETTER_LEVEL, 0)
        return self._record(client, returned, group.retry_queue_nums, group.retry_max_times)

    def _record(self, client: Client, returned: Returned, retry_queues: int, group_limit: int) -> NewRecord:
        message = self._store.read(returned.log_offset)
        if message is None or message.topic in system_topics.TRANSACTION_TOPICS:
            raise Refused(Refusal.FAILED, f"look message by offset failed, {returned.log_offset}")
        if self._rights is not None:
            self._rights.demand(client, message, returned.group)
        plan = plan_retry(
            message,
            properties.without(message.properties_text, properties.BROKER_ONLY),
            returned.group,
            returned.delay_level,
            group_limit if returned.max_deliveries is None else returned.max_deliveries,
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
        return park(record, plan.delay_level, self._delays_ms, self._time.wall_ms())
