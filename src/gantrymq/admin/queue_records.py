"""The records of one broker's queues, read as a tool reads them: by pulls, or entry by entry at old brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from gantrymq.admin.asking import Asking
from gantrymq.errors import RequestRejected
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import TRANSACTION_GROUP
from gantrymq.protocol.bodies.progress import ConsumeQueueEntries
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import QueryConsumerOffset
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer, ViewMessage
from gantrymq.protocol.headers.tools import QueryConsumeQueue
from gantrymq.protocol.stored_message import decode_record, scan

PULL_COUNT: Final = 1_000
"""Records asked for at once; Apache's brokers give 32."""
ENTRIES_AT_ONCE: Final = 500
VIEWS_AT_ONCE: Final = 32

Read = Callable[[int], None]
"""Called with the number of records that were read since the last call."""


class QueueRecords:
    """Every method raises Unreachable, TimedOut or RequestRejected."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def settled_below(self, address: str, topic: str, name: str) -> int:
        """Where the broker's own progress stands: below are settled halves, and ops of settled halves, only."""
        header = QueryConsumerOffset(
            consumer_group=TRANSACTION_GROUP, topic=topic, queue_id=0, set_zero_if_not_found=False, bname=name
        )
        answer = await self._asking.ask(
            address, RequestCode.QUERY_CONSUMER_OFFSET, header, what="progress of the transaction checks",
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )  # fmt: skip
        return answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else 0

    async def of_queue(
        self, address: str, queue: MessageQueue, start: int, read: Read | None, at_most: int | None = None
    ) -> AsyncIterator[StoredMessage]:
        """The records of a queue from ``start`` to its present end, or so many offsets behind its beginning."""
        topic, number, name = queue.topic, queue.queue_id, queue.broker_name
        low = GetMinOffset(topic=topic, queue_id=number, bname=name)
        high = GetMaxOffset(topic=topic, queue_id=number, committed=True, bname=name)
        offset = max(start, await self._edge(address, RequestCode.GET_MIN_OFFSET, low))
        end = await self._edge(address, RequestCode.GET_MAX_OFFSET, high)
        if at_most is not None:
            end = min(end, offset + at_most)
        while offset < end:
            try:
                raw = await self._asking.pull(address, queue, offset, min(PULL_COUNT, end - offset))
            except RequestRejected as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                # 4.x brokers have the op queue, but no topic of that name: read entry by entry.
                async for record in self._by_entry(address, queue, offset, end, read):
                    yield record
                return
            if raw.next_offset <= offset:
                return
            records = list(scan(raw.data, check=False))
            for record in records:
                yield record
            offset = raw.next_offset
            if read is not None:
                read(len(records))

    async def _by_entry(
        self, address: str, queue: MessageQueue, offset: int, end: int, read: Read | None
    ) -> AsyncIterator[StoredMessage]:
        while offset < end:
            count = min(ENTRIES_AT_ONCE, end - offset)
            header = QueryConsumeQueue(topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count)
            answer = await self._asking.ask(
                address, RequestCode.QUERY_CONSUME_QUEUE, header, what=f"entries of {queue}", timeout_ms=10_000
            )
            entries = ConsumeQueueEntries.decode(answer.body).queue_data
            if not entries:
                return
            for first in range(0, len(entries), VIEWS_AT_ONCE):
                part = entries[first : first + VIEWS_AT_ONCE]
                for record in await asyncio.gather(*(self.at(address, entry.physic_offset) for entry in part)):
                    if record is not None:
                        yield record
            offset += len(entries)
            if read is not None:
                read(len(entries))

    async def at(self, address: str, log_offset: int) -> StoredMessage | None:
        answer = await self._asking.ask(
            address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=log_offset), what="record of the log",
            accept=(ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR),
        )  # fmt: skip
        return decode_record(answer.body) if answer.code == ResponseCode.SUCCESS else None

    async def _edge(self, address: str, code: RequestCode, header: GetMinOffset | GetMaxOffset) -> int:
        answer = await self._asking.ask(address, code, header, what=f"offsets of {header.topic}")
        return answer.header(OffsetAnswer).offset
