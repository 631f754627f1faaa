"""The messages of a topic as they were stored: the newest ones, those from a time on, those from an offset on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.admin.asking import Asking
from gantrymq.client.connection.routes import subscribe_queues
from gantrymq.client.consuming.pulling import views
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer, SearchOffset

COUNT_MAX: Final = 500
QUEUES_AT_ONCE: Final = 8
PULLS_MAX: Final = 20
"""Pulls from one queue for one answer: Apache's brokers give 32 messages at once."""


_OfQueue = Callable[[str, MessageQueue], Awaitable[list[MessageView]]]


class Browsing:
    """Reads without a group: nobody's progress changes. Every method raises RouteNotFound, Unreachable, TimedOut or
    RequestRejected."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def check_brokers(self) -> None:
        """Raises Unreachable when no broker is registered: then nothing can be said about the topics there are."""
        await self._asking.masters()

    async def newest(self, topic: str, count: int, body_max: int | None = None) -> list[MessageView]:
        """The last messages of all queues, the newest first. ``body_max``, here and below: bytes of a body that are
        wanted (``MessageView.body_cut``); None: all."""

        async def of(address: str, queue: MessageQueue) -> list[MessageView]:
            low, high = await self._edges(address, queue)
            return await self._read(address, queue, max(low, high - count), high, count, body_max)

        found = await self._of_queues(topic, of)
        return sorted(found, key=lambda view: view.store_timestamp, reverse=True)[:count]

    async def since(self, topic: str, time_ms: int, count: int, body_max: int | None = None) -> list[MessageView]:
        """The first messages of all queues that were stored at this time (ms since 1970) or later, the oldest first."""

        async def of(address: str, queue: MessageQueue) -> list[MessageView]:
            header = SearchOffset(
                topic=topic, queue_id=queue.queue_id, timestamp=time_ms, bname=queue.broker_name
            )  # fmt: skip
            start = await self._offset(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
            end = (await self._edges(address, queue))[1]
            return await self._read(address, queue, start, end, count, body_max)

        found = [view for view in await self._of_queues(topic, of) if view.store_timestamp >= time_ms]
        return sorted(found, key=lambda view: view.store_timestamp)[:count]

    async def at(
        self, queue: MessageQueue, offset: int, count: int, body_max: int | None = None
    ) -> tuple[list[MessageView], int, int]:
        """The messages of one queue from an offset on, and the offsets of its first message and behind its last."""
        address = (await self._asking.chosen(queue.broker_name))[queue.broker_name]
        low, high = await self._edges(address, queue)
        return await self._read(address, queue, max(offset, low), high, count, body_max), low, high

    async def _of_queues(self, topic: str, of: _OfQueue) -> list[MessageView]:
        route = await self._asking.endpoint.routes.fetch(topic)
        places = {broker.broker_name: broker.master for broker in route.broker_datas}
        turns = asyncio.Semaphore(QUEUES_AT_ONCE)

        async def one(queue: MessageQueue) -> list[MessageView]:
            address = places.get(queue.broker_name)
            if address is None:
                return []  # its master is gone; what the others have is still of use
            async with turns:
                return await of(address, queue)

        found = await asyncio.gather(*(one(queue) for queue in subscribe_queues(topic, route)))
        return [view for part in found for view in part]

    async def _read(
        self, address: str, queue: MessageQueue, start: int, end: int, count: int, body_max: int | None
    ) -> list[MessageView]:
        if not 0 < count <= COUNT_MAX:
            raise ConfigError(f"ask for 1 to {COUNT_MAX} messages at once")
        found: list[MessageView] = []
        for _ in range(PULLS_MAX):
            if start >= end or len(found) >= count:
                break
            raw = await self._asking.pull(address, queue, start, count - len(found))
            found += views(raw, queue, body_max=body_max)
            if raw.next_offset <= start:
                break
            start = raw.next_offset
        return found[:count]

    async def _edges(self, address: str, queue: MessageQueue) -> tuple[int, int]:
        topic, number, name = queue.topic, queue.queue_id, queue.broker_name
        low = GetMinOffset(topic=topic, queue_id=number, bname=name)
        high = GetMaxOffset(topic=topic, queue_id=number, committed=True, bname=name)
        return (
            await self._offset(address, RequestCode.GET_MIN_OFFSET, low),
            await self._offset(address, RequestCode.GET_MAX_OFFSET, high),
        )

    async def _offset(self, address: str, code: RequestCode, header: GetMinOffset | GetMaxOffset | SearchOffset) -> int:
        answer = await self._asking.ask(address, code, header, what=f"offsets of {header.topic}")
        return answer.header(OffsetAnswer).offset
