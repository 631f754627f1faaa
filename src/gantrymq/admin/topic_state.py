"""Topics as their brokers see them. Source: DefaultMQAdminExtImpl, TopicStatusSubCommand."""

from __future__ import annotations

from typing import Final

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.message.progress import TopicOffset
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import TopicStats
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.topics import TopicConfig, TopicTable
from gantrymq.protocol.headers.topics import TopicOnly

MESSAGE_TYPE: Final = "message.type"


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A topic on all its brokers."""

    queues: dict[MessageQueue, TopicOffset]
    put_tps: float | None
    """Messages a second over all brokers; None: they do not say (4.x)."""


class TopicState:
    """Questions about one topic to the masters that have it."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def holders(self, topic: str) -> dict[str, str]:
        """Name to address of the masters that have the topic. Raises RouteNotFound."""
        route = await self._asking.endpoint.routes.fetch(topic)
        return {b.broker_name: b.master for b in route.broker_datas if b.master is not None}

    async def status(self, topic: str) -> TopicStatus:
        """What every queue holds. Raises RouteNotFound."""
        queues: dict[MessageQueue, TopicOffset] = {}
        rates: list[float] = []
        for address in (await self.holders(topic)).values():
            stats = await self.stats(topic, address)
            queues.update(stats.by_queue())
            if stats.topic_put_tps is not None:
                rates.append(stats.topic_put_tps)
        return TopicStatus(queues=dict(sorted(queues.items())), put_tps=sum(rates) if rates else None)

    async def stats(self, topic: str, address: str) -> TopicStats:
        """What the queues on one broker hold."""
        answer = await self._asking.ask(
            address, RequestCode.GET_TOPIC_STATS_INFO, TopicOnly(topic=topic), what=f"status of topic {topic!r}"
        )
        return TopicStats.decode(answer.body)

    async def configs(self, topic: str) -> dict[str, TopicConfig]:
        """Broker name to settings of the topic there. Raises RouteNotFound."""
        gone = TopicConfig(topic_name=topic, perm=0)
        return {
            name: await self.on_broker(topic, address) or gone for name, address in (await self.holders(topic)).items()
        }

    async def on_broker(self, topic: str, address: str) -> TopicConfig | None:
        """Settings of the topic on one broker; None when it has no such topic."""
        what = f"settings of topic {topic!r}"
        known = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.TOPIC_NOT_EXIST)
        answer = await self._asking.ask(
            address, RequestCode.GET_TOPIC_CONFIG, TopicOnly(topic=topic), what=what, accept=known
        )
        if answer.code == ResponseCode.SUCCESS:
            return TopicConfig.decode(answer.body)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        # 4.x brokers tell all their topics or none.
        answer = await self._asking.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, what=what)
        return TopicTable.decode(answer.body).topic_config_table.get(topic)
