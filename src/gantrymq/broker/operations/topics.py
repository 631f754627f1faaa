"""Operators create, show and delete topics here. Source: AdminBrokerProcessor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gantrymq.broker.announcement import Announce
from gantrymq.broker.durability import refusal
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.pop.names import pop_retry_topic
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import MAX_QUEUES, Topics, apply_attributes
from gantrymq.errors import ConfigError, MessageIllegal, StoreError
from gantrymq.message import system_topics
from gantrymq.protocol.bodies.topics import TopicConfig, TopicTable

_KEPT: Final = system_topics.NOT_SENDABLE | {system_topics.AUTO_CREATE, system_topics.BENCHMARK}
"""Topics that can be neither altered nor removed."""
_PERMS: Final = range(8)


class Queues(Protocol):
    """The queues of topics."""

    def delete_topic(self, topic: str, done: Callable[[StoreError | None], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class TopicOrder:
    """The settings that a topic shall have."""

    name: str
    read_queues: int
    write_queues: int
    perm: int
    """4 read, 2 write, 1 inherit."""
    filter_type: str
    """``SINGLE_TAG`` or ``MULTI_TAG``."""
    sys_flag: int
    order: bool
    attributes: str | None
    """Changes, as ``+key=value,-key``; attributes that are not named stay."""


class TopicAdministration:
    """Makes, shows and removes topics."""

    def __init__(
        self, topics: Topics, offsets: ConsumerOffsets, queues: Queues, counters: MessageCounters, announce: Announce
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._queues = queues
        self._counters = counters
        self._announce = announce

    def update(self, orders: Sequence[TopicOrder], done: Callable[[], None]) -> None:
        """Make or alter topics: all or, when one cannot be, none. ``done`` is called when the name servers know them,
        so that their routes can be asked at once.
        """
        if not orders:
            raise Refused(Refusal.PARAMETER_INVALID, "the list names no topic")
        configs = [self._checked(order) for order in orders]
        try:
            self._topics.update(*configs)
        except StoreError as error:
            raise refusal(error) from error
        self._announce(done)

    def _checked(self, order: TopicOrder) -> TopicConfig:
        known = self._topics.get(order.name)
        try:
            system_topics.check_topic(order.name)
            attributes = apply_attributes((known.attributes if known is not None else None) or {}, order.attributes)
        except (MessageIllegal, ConfigError) as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        if order.name in _KEPT:
            raise Refused(
                Refusal.PARAMETER_INVALID, f"the topic {order.name!r} belongs to the system; choose another name"
            )
        for name, value in (("readQueueNums", order.read_queues), ("writeQueueNums", order.write_queues)):
            if not 1 <= value <= MAX_QUEUES:
                raise Refused(Refusal.PARAMETER_INVALID, f"{name} is {value}; it must be between 1 and {MAX_QUEUES}")
        if order.perm not in _PERMS:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"perm is {order.perm}; write 6 (read and write), 4 (read) or 2 (write)",
            )
        return TopicConfig(
            topic_name=order.name,
            read_queue_nums=order.read_queues,
            write_queue_nums=order.write_queues,
            perm=order.perm,
            topic_filter_type=order.filter_type,
            topic_sys_flag=order.sys_flag,
            order=order.order,
            attributes=attributes,
        )

    def delete(self, topic: str, done: Callable[[StoreError | None], None]) -> None:
        """Delete a topic and the retry topics that popping made for it; when it is created again it is empty. ``done``
        is called when the queues are deleted, or with the first error.
        """
        if topic in _KEPT:
            raise Refused(Refusal.PARAMETER_INVALID, f"the topic {topic!r} belongs to the system and stays")
        retries = [
            pop_retry_topic(topic, group, v2=v2) for group in self._offsets.groups_of(topic) for v2 in (False, True)
        ]
        gone = [name for name in retries if self._topics.exists(name)] + [topic]
        for name in gone:
            self._topics.delete(name)
            self._offsets.forget_topic(name)
            self._counters.forget_topic(name)
        # At once: after a crash, old offsets would pass over what is sent to a new topic of this name.
        self._offsets.save()
        errors: list[StoreError] = []
        left = list(gone)

        def deleted(error: StoreError | None) -> None:
            errors.extend([error] if error is not None else [])
            left.pop()
            if not left:
                done(errors[0] if errors else None)

        for name in gone:
            self._queues.delete_topic(name, deleted)

    def get(self, name: str) -> TopicConfig:
        """The settings of a topic."""
        config = self._topics.get(name)
        if config is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"No topic in this broker. topic: {name}")
        return config

    def table(self) -> TopicTable:
        """The settings of all topics."""
        return self._topics.table()

    def system_topics(self) -> list[str]:
        """The topics that every broker has, or that a broker makes for itself."""
        return sorted(name for name in self._topics.names() if self._topics.is_system(name))
