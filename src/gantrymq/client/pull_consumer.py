"""The pull consumer, which reads chosen queues from chosen offsets.

Source: DefaultMQPullConsumer; docs/protocol.md#what-clients-send-and-when, docs/protocol.md#pulling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Unpack

from gantrymq.client import settings_rules as rules
from gantrymq.client.config import PullConfig, settings_of
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.lifetime import Lifetime
from gantrymq.client.connection.namespaces import with_namespace, without_namespace
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.client.connection.routes import subscribe_queues
from gantrymq.client.consuming.filters import EVERYTHING, Filter, filter_of
from gantrymq.client.consuming.portions import Portions
from gantrymq.client.consuming.pulling import ANSWERS, DEFAULT_MAX_BYTES, pull_answer, pull_request
from gantrymq.client.consuming.queue_arguments import checked_queue, checked_queues
from gantrymq.client.keywords import PullSettings
from gantrymq.client.results import PullResult, RawPull
from gantrymq.client.settings_rules import read_setting
from gantrymq.client.tracing.provider import spans_of
from gantrymq.client.tracing.watch import processing
from gantrymq.errors import BodyTooLarge, ConfigError, GantryError
from gantrymq.message import system_topics
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.headers.consumer import QueryConsumerOffset, UpdateConsumerOffset
from gantrymq.protocol.headers.pull import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    SearchOffset,
    StoreTimeAnswer,
)

BATCH_BYTES: Final = 64 * 1024 * 1024
"""When a pull returns fewer messages than it got, because their bodies are so large when they are decompressed."""
_COUNT: Final = rules.Whole(1, rules.MAX_INT)
_ANSWER_MARGIN_MS: Final = 10_000
"""How long to wait for the answer to a pull, beyond the time for which the broker may hold it."""
_AT_ONCE: Final = 64
"""How many queues are asked about at the same time."""


class PullConsumer(Lifetime):
    """Reads messages by queue and offset. It keeps no position and shares nothing with other members of its group.

    Requests are repeated while a broker is unreachable (until their time is over; see ``reconnect``), so they survive
    a restart of the broker. The consumer belongs to the event loop and process in which it was started; after a fork
    calls raise UsedAfterFork. Cancelling a call changes nothing on the broker.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        name_servers: str | Iterable[str],
        outside: Outside | None = None,
        **settings: Unpack[PullSettings],
    ) -> None:
        """``group``: needed for ``committed`` and ``commit`` only. ``settings``: fields of PullConfig."""
        config = self._config = settings_of(PullConfig, name_servers, settings)
        if group is not None:
            system_topics.check_group(group)
            group = with_namespace(config.namespace, group)
        self.group = group
        self._endpoint = Endpoint(type(self).__name__, config, default_outside() if outside is None else outside)
        self._watch = spans_of(self._endpoint, group)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read, freshly asked. Raises RouteNotFound or Unreachable."""
        self._endpoint.check_usable()
        system_topics.check_topic(topic)
        topic = with_namespace(self._config.namespace, topic)
        return subscribe_queues(topic, await self._endpoint.routes.fetch(topic))

    async def known_route(self, topic: str) -> TopicRoute | None:
        """The route of a topic, as this consumer knows it without asking anybody. For ``introduce``."""
        self._endpoint.check_usable()
        system_topics.check_topic(topic)
        return self._endpoint.routes.known(with_namespace(self._config.namespace, topic))

    async def introduce(self, topic: str, route: TopicRoute) -> None:
        """Use the route that another process of the same program has (``known_route``), if this consumer has none. It
        then reaches the brokers also while no name server answers."""
        self._endpoint.check_usable()
        system_topics.check_topic(topic)
        self._endpoint.routes.introduce(with_namespace(self._config.namespace, topic), route)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_count: int = 32,
        tags: str = "*",
        *,
        wait_ms: int = 0,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> PullResult:
        """Up to ``max_count`` messages from ``offset`` on. There may be more even if fewer are returned.

        ``tags``: ``"*"`` or ``"A || B"``. ``wait_ms``: how long the broker may wait for a message when there is none.
        Raises ConfigError for an invalid argument, BodyTooLarge, RequestRejected, Unreachable or TimedOut.
        """
        begun_ms = 0 if self._watch is None else self._endpoint.clock.wall_ms()
        raw = await self._pull(queue, offset, max_count, max_bytes, filter_of(tags), wait_ms)
        messages, next_offset = await self._read(raw, queue, tags)
        if self._config.namespace:
            for view in messages:
                view.topic = without_namespace(self._config.namespace, view.topic)
        if self._watch is not None and messages:
            self._watch.received(messages, begun_ms)
        return PullResult(
            status=raw.status,
            messages=messages,
            next_offset=next_offset,
            min_offset=raw.min_offset,
            max_offset=raw.max_offset,
        )

    async def _read(self, raw: RawPull, queue: MessageQueue, tags: str) -> tuple[list[MessageView], QueueOffset]:
        """The messages, and where to go on. Large bodies end them early, and so does one that is too large."""
        portions, found, size = Portions(raw, queue, tags, self._config.max_body_bytes), list[MessageView](), 0
        while True:
            portion = await portions.next()
            if portion.too_large is not None:
                offset = portion.too_large.queue_offset
                if found:
                    return found, offset
                raise BodyTooLarge(str(queue), offset, self._config.max_body_bytes)
            found += portion.views
            size += sum(len(view.body) for view in portion.views)
            if portions.done or size >= BATCH_BYTES:
                return found, portion.below

    def processing(self, messages: MessageView | Sequence[MessageView]) -> AbstractContextManager[object]:
        """``with consumer.processing(message): ...`` around the work on pulled messages makes it a *process* span of
        their trace, if the program traces with OpenTelemetry; otherwise it does nothing."""
        return processing(self._watch, messages)

    async def pull_raw(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter = EVERYTHING
    ) -> RawPull:
        """Like ``pull``, with the records undecoded; see ``gantrymq.protocol.stored_message``.

        ``selection``: which messages the broker returns. Of tags it compares only hashes, so the caller must check the
        tags of what it gets.
        """
        return await self._pull(queue, offset, max_count, max_bytes, selection, 0)

    async def pull_raw_each(
        self, wanted: Sequence[tuple[MessageQueue, int, int]], max_bytes: int, selection: Filter = EVERYTHING
    ) -> list[RawPull | GantryError]:
        """``pull_raw`` of several queues at the same time: an answer or an error for each of ``wanted`` (queue, offset
        and ``max_count``), in this order."""

        async def one(queue: MessageQueue, offset: int, max_count: int) -> RawPull | GantryError:
            try:
                return await self.pull_raw(queue, offset, max_count, max_bytes, selection)
            except GantryError as error:
                return error

        return await asyncio.gather(*(one(*each) for each in wanted))

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Offset of the oldest message that still exists."""
        checked_queue(queue)
        header = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        return await self._offset(queue, RequestCode.GET_MIN_OFFSET, header)

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Offset that the next message will get."""
        checked_queue(queue)
        header = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id, committed=True, bname=queue.broker_name)
        return await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)

    async def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """``min_offset`` of many queues, all asked at the same time, which takes about as long as asking for a few.

        Raises what the question about one of them raises.
        """
        return await self._of_all(self.min_offset, queues)

    async def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """``max_offset`` of many queues, like ``min_offsets``."""
        return await self._of_all(self.max_offset, queues)

    async def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """Offset of the first message stored at ``timestamp_ms`` (ms since 1970) or later; the end when there is none.

        Apache's 4.x brokers return the nearest message instead.
        """
        checked_queue(queue)
        read_setting("timestamp_ms", timestamp_ms, rules.POSITION)
        header = SearchOffset(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, bname=queue.broker_name
        )
        return await self._offset(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the oldest message was stored, ms since 1970; negative when the queue is empty."""
        checked_queue(queue)
        header = GetEarliestStoreTime(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        answer = await self._ask(queue, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        return answer.header(StoreTimeAnswer).timestamp

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored progress; None when it has none."""
        checked_queue(queue)
        header = QueryConsumerOffset(
            consumer_group=self._group(),
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
            bname=queue.broker_name,
        )
        accept = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        answer = await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header, accept)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return QueueOffset(answer.header(OffsetAnswer).offset)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's progress: all messages below ``offset`` are consumed."""
        checked_queue(queue)
        read_setting("offset", offset, rules.POSITION)
        header = UpdateConsumerOffset(
            consumer_group=self._group(),
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        await self._ask(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    # The parts.

    def _group(self) -> str:
        if self.group is None:
            raise ConfigError("committed offsets belong to a group; create the PullConsumer with one")
        return self.group

    async def _pull(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter, wait_ms: int
    ) -> RawPull:
        checked_queue(queue)
        read_setting("offset", offset, rules.POSITION)
        read_setting("max_count", max_count, _COUNT)
        read_setting("max_bytes", max_bytes, _COUNT)
        read_setting("wait_ms", wait_ms, rules.WAIT)
        group = self.group or system_topics.TOOLS_CONSUMER
        header = pull_request(
            group, queue, offset, max_count, max_bytes, tags=selection.text, kind=selection.kind, wait_ms=wait_ms
        )
        timeout_ms = max(self._config.pull_timeout_ms, wait_ms + _ANSWER_MARGIN_MS if wait_ms else 0)
        answer = await self._ask(queue, RequestCode.PULL_MESSAGE, header, ANSWERS, timeout_ms)
        return pull_answer(answer, queue)

    async def _of_all(
        self, ask: Callable[[MessageQueue], Awaitable[QueueOffset]], queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, QueueOffset]:
        self._endpoint.check_usable()
        wanted = checked_queues(queues)
        found: dict[MessageQueue, QueueOffset] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            found.update(zip(part, await asyncio.gather(*map(ask, part)), strict=True))
        return found

    async def _offset(self, queue: MessageQueue, code: RequestCode, header: Header) -> QueueOffset:
        return QueueOffset((await self._ask(queue, code, header)).header(OffsetAnswer).offset)

    async def _ask(
        self,
        queue: MessageQueue,
        code: RequestCode,
        header: Header,
        accept: Iterable[int] = (ResponseCode.SUCCESS,),
        timeout_ms: int | None = None,
    ) -> Command:
        self._endpoint.check_usable()
        routes = self._endpoint.routes
        await routes.get(queue.topic)
        return await self._endpoint.ask(
            lambda: routes.readable(queue.broker_name),
            code,
            header,
            what=f"{code.name.lower().replace('_', ' ')} of {queue}",
            topic=queue.topic,
            timeout_ms=timeout_ms,
            accept=accept,
            again=self._config.reconnect,
        )
