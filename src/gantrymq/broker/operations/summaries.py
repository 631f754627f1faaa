"""All topics, groups and clients at a glance, for tools. See ``message.summaries``.

Each question is answered step by step: a broker may have many thousands of topics, and others are served in between. A
step that gives no row is None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.broker.metrics.lag import QUEUES_AT_ONCE, InvisibleOf, Lags
from gantrymq.broker.registries.clients import Member
from gantrymq.broker.registries.registries import Registries
from gantrymq.broker.upkeep.statistics import GROUP_GET_NUMS, TOPIC_PUT_NUMS, Statistics
from gantrymq.message.summaries import ClientRow, GroupSummary, TopicGroupLag, TopicSummary
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

MESSAGE_TYPE: Final = "message.type"


class Overviews:
    """Rows of everything that there is."""

    def __init__(
        self, store: MessageStore, registries: Registries, statistics: Statistics, clock: Clock, invisible: InvisibleOf
    ) -> None:
        self._store = store
        self._registries = registries
        self._statistics = statistics
        self._clock = clock
        self._lags = Lags(store, registries, clock, invisible)

    def topics(self) -> Iterator[TopicSummary | None]:
        """Every topic, those of the system and of retries included."""
        put = self._statistics.rates(TOPIC_PUT_NUMS)
        got: dict[str, float] = {}
        for key, rate in self._statistics.rates(GROUP_GET_NUMS).items():
            topic = key.rpartition("@")[0]
            got[topic] = got.get(topic, 0.0) + rate
        readers: dict[str, list[str]] = {}
        for group, topic in self._registries.offsets.pairs():
            readers.setdefault(topic, []).append(group)
        for name in self._registries.topics.names():
            config = self._registries.topics.get(name)
            if config is not None:  # removed since
                yield from self._topic(config, put.get(name, 0.0), got.get(name, 0.0), readers.get(name, []))

    def _topic(
        self, config: TopicConfig, put: float, got: float, groups: list[str]
    ) -> Iterator[TopicSummary | None]:  # fmt: skip
        name, offsets = config.topic_name, self._registries.offsets
        queues = max(config.read_queue_nums, config.write_queue_nums)
        ranges: list[tuple[int, int]] = []
        for first in range(0, queues, QUEUES_AT_ONCE):
            some = range(first, min(first + QUEUES_AT_ONCE, queues))
            ranges += [self._store.queue_range(name, queue) for queue in some]
            yield None
        lag, furthest = 0, ""
        for group in groups:
            behind = sum(
                max(0, ranges[queue][1] - (offsets.get(group, name, queue) or 0))
                for queue in range(config.read_queue_nums)
            )
            if behind > lag:
                lag, furthest = behind, group
            yield None
        yield TopicSummary(
            topic=name, queues=queues, messages=sum(end - first for first, end in ranges), put_tps=put, got_tps=got,
            groups=len(groups), lag=lag if groups else None, furthest=furthest,
            message_type=(config.attributes or {}).get(MESSAGE_TYPE, ""), perm=config.perm,
            system=self._registries.topics.is_system(name),
        )  # fmt: skip

    def groups(self) -> Iterator[GroupSummary | None]:
        """Every group that is known or online."""
        rates = self._statistics.rates(GROUP_GET_NUMS)
        found: dict[str, list[TopicGroupLag]] = {}
        consumers = self._registries.consumers
        for place in self._lags.places():
            yield None
            if place is None:
                continue
            group, name, (ready, in_flight, oldest, _) = place
            row = TopicGroupLag(
                topic=name, lag=ready + in_flight, behind_ms=oldest, tps=rates.get(f"{name}@{group}", 0.0)
            )  # fmt: skip
            found.setdefault(group, []).append(row)
        for group in dict.fromkeys([*self._registries.groups.names(), *consumers.groups(), *found]):
            online = consumers.get(group)
            yield GroupSummary(
                group=group, topics=found.get(group, []), members=consumers.client_ids(group),
                model="" if online is None else str(online.message_model),
                conflicts=[] if online is None else list(online.conflicts()),
            )  # fmt: skip

    def clients(self) -> Iterator[ClientRow]:
        """Every client of every group that is online."""
        producers, consumers = self._registries.producers, self._registries.consumers
        for name in producers.groups():
            yield from (self._client("producer", name, member) for member in producers.members(name))
        for name in consumers.groups():
            group = consumers.get(name)
            if group is not None:
                yield from (self._client("consumer", name, member) for member in list(group.members.values()))

    def _client(self, kind: str, group: str, member: Member) -> ClientRow:
        return ClientRow(
            kind=kind, group=group, client_id=member.client_id, address=member.connection.address,
            language=member.language, version=member.version, protocol=member.connection.protocol,
            heard_ms=max(0, int((self._clock.monotonic() - member.heard_at) * 1000)),
        )  # fmt: skip
