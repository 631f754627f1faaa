"""The offset at which a consumer begins to read a queue.

Source: RebalancePushImpl.computePullFromWhere; docs/protocol.md#consumer-offsets.
"""

from __future__ import annotations

from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.offset_store import OffsetStore
from gantrymq.errors import RequestRejected, Unreachable
from gantrymq.message import system_topics
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Header
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer, SearchOffset

HALF_AN_HOUR_MS: Final = 30 * 60_000
"""How far before its start a group begins with ConsumeFromWhere.TIMESTAMP and no timestamp (consumeTimestamp)."""


async def first_offset(
    endpoint: Endpoint,
    progress: OffsetStore,
    queue: MessageQueue,
    from_where: ConsumeFromWhere,
    *,
    new: bool,
    timestamp_ms: int,
) -> QueueOffset:
    """The stored progress; without it the offset that ``from_where`` chooses.

    ``new``: the queue did not exist when the consumer started, so all its messages are new. Raises GantryError when the
    broker cannot answer; then the queue must not be read yet.
    """
    kept = await progress.load(queue)
    if kept is not None:
        return kept
    if new or queue.topic.startswith(system_topics.RETRY_PREFIX) or from_where is ConsumeFromWhere.FIRST_OFFSET:
        return await min_offset(endpoint, queue)
    if from_where is ConsumeFromWhere.TIMESTAMP:
        return await offset_by_time(endpoint, queue, timestamp_ms)
    return await max_offset(endpoint, queue)


async def min_offset(endpoint: Endpoint, queue: MessageQueue) -> QueueOffset:
    """Offset of the oldest message that is still there."""
    header = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
    return await _ask(endpoint, queue, RequestCode.GET_MIN_OFFSET, header)


async def max_offset(endpoint: Endpoint, queue: MessageQueue) -> QueueOffset:
    """Offset that the next message will get."""
    header = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id, committed=True, bname=queue.broker_name)
    return await _ask(endpoint, queue, RequestCode.GET_MAX_OFFSET, header)


async def offset_by_time(endpoint: Endpoint, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
    """Offset of the first message stored at ``timestamp_ms`` or later; Apache's 4.x brokers return the nearest one."""
    header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, bname=queue.broker_name)
    return await _ask(endpoint, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)


async def _ask(endpoint: Endpoint, queue: MessageQueue, code: RequestCode, header: Header) -> QueueOffset:
    address = endpoint.routes.readable(queue.broker_name)
    if address is None:
        raise Unreachable(queue.broker_name, "the name servers know no address of that broker")
    answer = await endpoint.call(address, code, header)
    if answer.code != ResponseCode.SUCCESS:
        what = f"{code.name.lower().replace('_', ' ')} of {queue}"
        raise RequestRejected(answer.code, answer.remark, request=what, address=address)
    return QueueOffset(answer.header(OffsetAnswer).offset)
