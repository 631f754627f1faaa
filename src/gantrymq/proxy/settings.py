"""What the brokers of a cluster say about topics and consumer groups. It is asked anew after a while.

Source: ClusterMetadataService.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from gantrymq.broker.grpc.local import NEW_GROUP, rules_of
from gantrymq.broker.grpc.messaging import BrokerTopic, GroupRules
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import PERM_WRITE, TopicConfig
from gantrymq.protocol.headers.topics import GroupOnly, TopicOnly
from gantrymq.proxy.cluster import Cluster
from gantrymq.runtime.tasks import SharedWork

FRESH_SECONDS: Final = 10.0
NEW_SECONDS: Final = 1.0
"""What does not exist yet may be made at any time."""
KEPT_MAX: Final = 20_000
"""Topics, and groups, whose settings are kept."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    value: T
    until: float


class _Cache(Generic[T]):
    """Values that are asked for once at a time, and kept for a while."""

    def __init__(self, cluster: Cluster, ask: Callable[[str], Awaitable[tuple[T, float]]]) -> None:
        """``ask``: gives the value, and for how many seconds it is fresh."""
        self._clock = cluster.clock
        self._ask = ask
        self._kept: dict[str, _Kept[T]] = {}
        self._asking: SharedWork[str, T] = SharedWork()

    async def get(self, name: str) -> T:
        kept = self._kept.get(name)
        if kept is not None and self._clock.monotonic() < kept.until:
            return kept.value
        try:
            return await self._asking.join(name, partial(self._fetch, name))
        except Refused:
            if kept is None:
                raise
            return kept.value  # the brokers cannot be asked just now

    async def _fetch(self, name: str) -> T:
        value, seconds = await self._ask(name)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[name] = _Kept(value, self._clock.monotonic() + seconds)
        return value


class ClusterSettings:
    """Topics and groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._attributes = _Cache(cluster, self._ask_attributes)
        self._groups = _Cache(cluster, self._ask_group)

    async def topic(self, name: str) -> Sequence[BrokerTopic]:
        """See ``Messaging.topic``."""
        return _places(name, await self._cluster.route(name), await self._attributes.get(name))

    async def group(self, name: str) -> GroupRules:
        """See ``Messaging.group``."""
        return await self._groups.get(name)

    async def _ask_attributes(self, topic: str) -> tuple[dict[str, str], float]:
        route = await self._cluster.route(topic)
        name = next((broker.broker_name for broker in route.broker_datas if broker.master is not None), None)
        if name is None:
            return {}, NEW_SECONDS
        answer = await self._cluster.ask(
            name, RequestCode.GET_TOPIC_CONFIG, TopicOnly(topic=topic, bname=name), what=f"settings of topic {topic}",
            accept=(ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            return {}, NEW_SECONDS
        return TopicConfig.decode(answer.body).attributes or {}, FRESH_SECONDS

    async def _ask_group(self, group: str) -> tuple[GroupRules, float]:
        masters = await self._cluster.known_masters()
        if not masters:
            raise Refused(Refusal.UNAVAILABLE, f"settings of group {group}: no broker is known yet")
        refused: Refused | None = None
        for address in masters:
            try:
                answer = await self._cluster.ask_at(
                    address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupOnly(group=group),
                    what=f"settings of group {group}",
                    accept=(
                        ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    ),
                )  # fmt: skip
            except Refused as error:
                refused = error
                continue
            if answer.code != ResponseCode.SUCCESS:
                return NEW_GROUP, NEW_SECONDS
            return rules_of(Group.decode(answer.body)), FRESH_SECONDS
        raise refused or Refused(Refusal.UNAVAILABLE, f"settings of group {group}: no broker answers")


def _places(topic: str, route: TopicRoute, attributes: dict[str, str]) -> Sequence[BrokerTopic]:
    with_master = {broker.broker_name for broker in route.broker_datas if broker.master is not None}
    return [
        BrokerTopic(
            data.broker_name,
            TopicConfig(
                topic_name=topic, read_queue_nums=data.read_queue_nums, write_queue_nums=data.write_queue_nums,
                perm=data.perm, attributes=attributes,
            ),
            data.perm if data.broker_name in with_master else data.perm & ~PERM_WRITE,
        )
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
    ]  # fmt: skip
