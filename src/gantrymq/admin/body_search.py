"""Messages of a topic whose bodies contain a text: a search that ends, and that says what it looked at.

The newest messages are looked at first, a part of each queue in turn. The search ends at the first of its bounds:
enough found, messages looked at, bytes read, or time. Brokers answer ordinary pulls, with a pause between two of them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.admin.topic_state import TopicState
from gantrymq.client.consuming.pulling import each_view
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.pull import OffsetAnswer, SearchOffset

PART_FIRST: Final = 4
"""Messages of one queue that are read before the next queue has its turn, as long as their size is not known."""
PART_MAX: Final = 200
PART_BYTES: Final = 1024 * 1024
"""The same afterwards: as many as have about so many bytes."""
BODY_MAX: Final = 4 * 1024 * 1024
"""Of a larger body only so many bytes are searched; it may be compressed, and then be of any size."""
PULLS_MAX: Final = 16
"""Pulls for one part; Apache's brokers give 32 messages at once."""
PAUSE_S: Final = 0.002
"""Between two pulls, so that a search never fills a broker's turns."""
TEXT_MAX: Final = 256
"""Characters of a text that is searched for."""
QUEUES_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a search ends."""

    found: int = 50
    messages: int = 5_000
    body_bytes: int = 32 * 1024 * 1024
    seconds: float = 5.0


class Ended(enum.StrEnum):
    """Why a search ended."""

    ALL = "everything in this time range was looked at"
    FOUND = "enough messages were found"
    MESSAGES = "it looked at as many messages as one search may"
    BYTES = "it read as many bytes as one search may"
    TIME = "its time was over"


@dataclass(slots=True)
class _Queue:
    """A queue that is searched from ``end`` down to ``begin``."""

    address: str
    queue: MessageQueue
    begin: int
    end: int
    part: int = PART_FIRST
    reached_ms: int | None = None
    """Store time of the oldest message that was looked at."""


@dataclass(slots=True)
class Searched:
    """What a search found, and what it looked at."""

    found: list[MessageView] = field(default_factory=list)
    """The newest first."""
    messages: int = 0
    body_bytes: int = 0
    queues: int = 0
    cut: int = 0
    """Bodies of which only the beginning was looked at."""
    ended: Ended = Ended.ALL
    unread: int = 0
    """Messages of the time range that were not looked at."""
    before_ms: int | None = None
    """Where a next search goes on: everything stored later was looked at. None: there is nothing left."""


class BodySearch:
    """Reads without a group: nobody's progress changes."""

    def __init__(self, asking: Asking, state: TopicState) -> None:
        self._asking = asking
        self._state = state
        self._clock = asking.endpoint.clock

    async def run(
        self, topic: str, text: str, from_ms: int, to_ms: int, bounds: Bounds, body_max: int | None = None
    ) -> Searched:
        """Messages stored from ``from_ms`` to ``to_ms``, which contain ``text`` (in any letter case of ASCII).
        ``body_max``: bytes of a body that are kept of what was found.

        Raises ConfigError for a text that is empty or too long, a time range without time, or too many queues;
        RouteNotFound, Unreachable, TimedOut or RequestRejected.
        """
        if not text or len(text) > TEXT_MAX:
            raise ConfigError(f"give a text of 1 to {TEXT_MAX} characters to look for in bodies")
        if to_ms <= from_ms:
            raise ConfigError("the time range ends before it begins; give an earlier begin or a later end")
        deadline = self._clock.monotonic() + bounds.seconds
        queues = await self._queues(topic, from_ms, to_ms)
        done, wanted = Searched(queues=len(queues)), text.encode().lower()
        waiting = list(queues)
        while waiting and (ended := self._bound(done, bounds, deadline)) is None:
            one = waiting.pop(0)
            await self._part(one, wanted, done, body_max, min(one.part, bounds.messages - done.messages))
            if one.end > one.begin:
                waiting.append(one)
        done.ended = ended if waiting and ended is not None else Ended.ALL
        done.unread = sum(one.end - one.begin for one in waiting)
        if waiting:
            # A queue whose turn did not come has everything left.
            done.before_ms = max(to_ms if one.reached_ms is None else one.reached_ms for one in waiting)
        done.found = sorted(done.found, key=lambda view: (view.store_timestamp, view.log_offset), reverse=True)
        return done

    def _bound(self, done: Searched, bounds: Bounds, deadline: float) -> Ended | None:
        if len(done.found) >= bounds.found:
            return Ended.FOUND
        if done.messages >= bounds.messages:
            return Ended.MESSAGES
        if done.body_bytes >= bounds.body_bytes:
            return Ended.BYTES
        return Ended.TIME if self._clock.monotonic() >= deadline else None

    async def _queues(self, topic: str, from_ms: int, to_ms: int) -> list[_Queue]:
        found = []
        for address in (await self._state.holders(topic)).values():
            stats = (await self._state.stats(topic, address)).by_queue()
            if len(stats) > QUEUES_MAX:
                raise ConfigError(f"{topic} has {len(stats)} queues on one broker; at most {QUEUES_MAX} are searched")
            for queue, at in sorted(stats.items()):
                if at.max_offset <= at.min_offset or at.last_update_timestamp < from_ms:
                    continue
                begin = max(await self._offset(address, queue, from_ms), at.min_offset)
                late = at.last_update_timestamp >= to_ms
                end = min(await self._offset(address, queue, to_ms), at.max_offset) if late else at.max_offset
                if end > begin:
                    found.append(_Queue(address, queue, begin, end))
        return found

    async def _offset(self, address: str, queue: MessageQueue, time_ms: int) -> int:
        header = SearchOffset(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=max(time_ms, 0), bname=queue.broker_name
        )  # fmt: skip
        answer = await self._asking.ask(
            address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, what=f"offsets of {queue.topic}"
        )
        return answer.header(OffsetAnswer).offset

    async def _part(self, one: _Queue, wanted: bytes, done: Searched, body_max: int | None, count: int) -> None:
        """Look at the last ``count`` messages that are left of a queue."""
        start, bytes_before = max(one.begin, one.end - count), done.body_bytes
        at, behind = start, one.end
        for _ in range(PULLS_MAX):
            if at >= behind:
                break
            raw = await self._asking.pull(one.address, one.queue, at, behind - at)
            for view in each_view(raw, one.queue, body_max=BODY_MAX):
                if at <= view.queue_offset < behind:
                    self._look(view, wanted, done, body_max)
                    earliest = view.store_timestamp if one.reached_ms is None else one.reached_ms
                    one.reached_ms = min(earliest, view.store_timestamp)
            if raw.next_offset <= at:
                break
            at = raw.next_offset
            await self._clock.sleep(PAUSE_S)
        average = (done.body_bytes - bytes_before) // max(one.end - start, 1)
        one.part = min(PART_MAX, max(1, PART_BYTES // max(average, 1)))
        one.end = start

    def _look(self, view: MessageView, wanted: bytes, done: Searched, body_max: int | None) -> None:
        done.messages += 1
        done.body_bytes += len(view.body)
        done.cut += view.body_cut
        if wanted in view.body.lower():
            cut = body_max is not None and len(view.body) > body_max
            done.found.append(msgspec.structs.replace(view, body=view.body[:body_max], body_cut=view.body_cut or cut))
