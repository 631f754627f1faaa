"""The messages of a topic as they were stored: the newest ones, those from a time on, those from an offset on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.admin.asking import Asking
from gantrymq.admin.topic_state import TopicState
from gantrymq.client.consuming.pulling import views
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.progress import TopicOffset
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer, SearchOffset

COUNT_MAX: Final = 500
QUEUES_AT_ONCE: Final = 8
SEARCHED_MAX: Final = 256
"""Queues that are searched by time for one answer."""
PULLS_MAX: Final = 20
"""Pulls from one queue for one answer: Apache's brokers give 32 messages at once."""


_Place = tuple[str, MessageQueue, TopicOffset]
"""A queue, the address of its broker, and what it holds."""


class Browsing:
    """Reads without a group: nobody's progress changes. Every method raises RouteNotFound, Unreachable, TimedOut or
    RequestRejected."""

    def __init__(self, asking: Asking, state: TopicState) -> None:
        self._asking = asking
        self._state = state

    async def check_brokers(self) -> None:
        """Raises Unreachable when no broker is registered: then nothing can be said about the topics there are."""
        await self._asking.masters()

    async def newest(self, topic: str, count: int, body_max: int | None = None) -> list[MessageView]:
        """The last messages of all queues, the newest first. ``body_max``, here and below: bytes of a body that are
        wanted (``MessageView.body_cut``); None: all.

        The newest ``count`` messages lie in the ``count`` queues that were written to last, so only those are read.
        """
        queues = sorted(await self._filled(topic), key=lambda one: one[2].last_update_timestamp, reverse=True)

        async def of(address: str, queue: MessageQueue, at: TopicOffset) -> list[MessageView]:
            return await self._read(
                address, queue, max(at.min_offset, at.max_offset - count), at.max_offset, count, body_max
            )

        found = await _each(queues[:count], of)
        return sorted(found, key=_stored, reverse=True)[:count]

    async def since(
        self, topic: str, time_ms: int, count: int, body_max: int | None = None, only: MessageQueue | None = None
    ) -> list[MessageView]:
        """The first messages of all queues that were stored at this time (ms since 1970) or later, the oldest first.
        ``only``: of this queue.

        Raises ConfigError when too many queues have such messages.
        """
        queues = [one for one in await self._filled(topic) if only is None or one[1] == only]
        queues = [one for one in queues if one[2].last_update_timestamp >= time_ms]
        if len(queues) > SEARCHED_MAX:
            raise ConfigError(
                f"{len(queues)} queues of {topic} have messages since then, and {SEARCHED_MAX} at most are searched at "
                "once; name a broker and a queue"
            )

        async def of(address: str, queue: MessageQueue, at: TopicOffset) -> list[MessageView]:
            header = SearchOffset(
                topic=topic, queue_id=queue.queue_id, timestamp=time_ms, bname=queue.broker_name
            )  # fmt: skip
            start = await self._offset(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
            return await self._read(address, queue, start, at.max_offset, count, body_max)

        found = [view for view in await _each(queues, of) if view.store_timestamp >= time_ms]
        return sorted(found, key=_stored)[:count]

    async def at(
        self, queue: MessageQueue, offset: int, count: int, body_max: int | None = None
    ) -> tuple[list[MessageView], int, int]:
        """The messages of one queue from an offset on, and the offsets of its first message and behind its last."""
        address = (await self._asking.chosen(queue.broker_name))[queue.broker_name]
        low, high = await self._edges(address, queue)
        return await self._read(address, queue, max(offset, low), high, count, body_max), low, high

    async def _filled(self, topic: str) -> list[_Place]:
        """The queues that hold messages, with one question to each broker. A broker whose master is gone has none; what
        the others have is still of use."""
        found: list[_Place] = []
        for address in (await self._state.holders(topic)).values():
            stats = await self._state.stats(topic, address)
            found += [(address, queue, at) for queue, at in stats.by_queue().items() if at.max_offset > at.min_offset]
        return found

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


async def _each(
    places: list[_Place], of: Callable[[str, MessageQueue, TopicOffset], Awaitable[list[MessageView]]]
) -> list[MessageView]:
    """What ``of`` finds in each place, a few at a time."""
    turns = asyncio.Semaphore(QUEUES_AT_ONCE)

    async def one(place: _Place) -> list[MessageView]:
        async with turns:
            return await of(*place)

    return [view for part in await asyncio.gather(*map(one, places)) for view in part]


def _stored(view: MessageView) -> tuple[int, int]:
    """Messages of one millisecond have the order of their log, where they lie on one broker."""
    return view.store_timestamp, view.log_offset
