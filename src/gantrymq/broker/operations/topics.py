"""Operators create, show and delete topics here. Source: AdminBrokerProcessor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from gantrymq.broker.announcement import Announce
from gantrymq.broker.durability import refusal
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import MAX_QUEUES, TooMany, Topics, apply_attributes
from gantrymq.errors import ConfigError, MessageIllegal, StoreError
from gantrymq.message import system_topics
from gantrymq.message.lite_topics import is_lite_queue, parent_of
from gantrymq.message.system_topics import pop_retry_topic
from gantrymq.protocol.files.topics import TopicConfig, TopicTable

_KEPT: Final = system_topics.NOT_SENDABLE | {system_topics.AUTO_CREATE, system_topics.BENCHMARK}
"""Topics that can be neither altered nor removed."""
_PERMS: Final = range(8)
MAX_AT_ONCE: Final = 5_000
"""Topics of one request."""
MAX_ATTRIBUTES: Final = 16_384
"""Characters of the attributes of one topic."""
Outcome: TypeAlias = Callable[[Refused | None], None]
"""Called with None when it is done, or with the refusal."""


class Queues(Protocol):
    """The queues of topics."""

    def delete_topic(self, topic: str, done: Callable[[StoreError | None], None]) -> None: ...

    def topics(self) -> set[str]: ...


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
        self._put(self._checked_all(orders, {}))
        self._announce(done)

    def update_each(self, wanted: Sequence[tuple[Sequence[TopicOrder], Outcome]]) -> None:
        """The orders of several requests with one write: each is made as a whole, or refused as a whole. The outcomes
        are called when the name servers know the topics, or with the refusal.
        """
        configs: dict[str, TopicConfig] = {}
        made: list[Outcome] = []
        for orders, outcome in wanted:
            try:
                new = self._checked_all(orders, configs)
                self._require_room({**configs, **new})
            except Refused as refused:
                outcome(refused)
                continue
            configs |= new
            made.append(outcome)
        if not made:
            return
        try:
            self._put(configs)
        except Refused as refused:
            for outcome in made:
                outcome(refused)
            return

        def known() -> None:
            for outcome in made:
                outcome(None)

        self._announce(known)

    def _require_room(self, topics: Iterable[str]) -> None:
        try:
            self._topics.check_room(topics)
        except TooMany as error:
            raise Refused(Refusal.NOT_PERMITTED, str(error)) from error

    def _put(self, configs: Mapping[str, TopicConfig]) -> None:
        self._require_room(configs)
        try:
            self._topics.update(*configs.values())
        except StoreError as error:
            raise refusal(error) from error

    def _checked_all(self, orders: Sequence[TopicOrder], before: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
        """``before``: what is ordered already, and not in the table yet."""
        if not orders:
            raise Refused(Refusal.PARAMETER_INVALID, "the list names no topic")
        if len(orders) > MAX_AT_ONCE:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the list names {len(orders)} topics; at most {MAX_AT_ONCE} can be made by one request, send several",
            )
        return {order.name: self._checked(order, before) for order in orders}

    def _checked(self, order: TopicOrder, before: Mapping[str, TopicConfig]) -> TopicConfig:
        known = before.get(order.name) or self._topics.get(order.name)
        if len(order.attributes or "") > MAX_ATTRIBUTES:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the attributes have {len(order.attributes or '')} characters; at most {MAX_ATTRIBUTES} are kept",
            )
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
        self.check_deletion(topic)
        self.delete_each([(topic, done)])

    def check_deletion(self, topic: str) -> None:
        """Raises Refused for a topic that may not be deleted."""
        if topic in _KEPT:
            raise Refused(Refusal.PARAMETER_INVALID, f"the topic {topic!r} belongs to the system and stays")

    def delete_each(self, wanted: Sequence[tuple[str, Callable[[StoreError | None], None]]]) -> None:
        """Several topics with one write; see ``delete``. Raises StoreError when that fails."""
        lite = self._lite_queues({topic for topic, _ in wanted})
        gone = {topic: [*self._retries_of(topic), *lite[topic], topic] for topic, _ in wanted}
        names = [name for some in gone.values() for name in some]
        self._topics.delete(*names)
        for name in names:
            self._offsets.forget_topic(name)
            self._counters.forget_topic(name)
        # At once: after a crash, old offsets would pass over what is sent to a new topic of this name.
        self._offsets.save()
        for topic, done in wanted:
            self._delete_queues(gone[topic], done)

    def _retries_of(self, topic: str) -> list[str]:
        names = (
            pop_retry_topic(topic, group, v2=v2) for group in self._offsets.groups_of(topic) for v2 in (False, True)
        )
        return [name for name in names if self._topics.exists(name)]

    def _lite_queues(self, topics: set[str]) -> dict[str, list[str]]:
        """Topic to the queues of its lite topics."""
        found: dict[str, list[str]] = {topic: [] for topic in topics}
        for queue in sorted(self._queues.topics()):
            if is_lite_queue(queue) and parent_of(queue) in found:
                found[parent_of(queue)].append(queue)
        return found

    def _delete_queues(self, gone: Sequence[str], done: Callable[[StoreError | None], None]) -> None:
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

    def encoded_table(self) -> bytes:
        """The same as the body of an answer."""
        return self._topics.encoded_table()

    def system_topics(self) -> list[str]:
        """The topics that every broker has, or that a broker makes for itself."""
        return sorted(name for name in self._topics.names() if self._topics.is_system(name))
