"""Where a group begins in a queue. Source: RebalancePushImpl.computePullFromWhere; wire-protocol.md 6.3."""

from __future__ import annotations

from gantrymq.client.endpoint import Endpoint
from gantrymq.errors import RequestRejected, Unreachable
from gantrymq.message import system_topics
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.heartbeat import ConsumeFromWhere
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.headers.consumer import QueryConsumerOffset
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer, SearchOffset


async def first_offset(
    endpoint: Endpoint,
    group: str,
    queue: MessageQueue,
    from_where: ConsumeFromWhere,
    *,
    new: bool,
    timestamp_ms: int,
) -> QueueOffset:
    """The group's stored progress; without one, where ``from_where`` says.

    ``new``: the queue did not exist when the consumer started, so nothing in it is old. Raises GantryError when the
    broker cannot say; then the queue must not be read yet.
    """
    topic, number, name = queue.topic, queue.queue_id, queue.broker_name
    progress = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=number, bname=name)
    answer = await _ask(endpoint, queue, RequestCode.QUERY_CONSUMER_OFFSET, progress)
    if answer.code == ResponseCode.SUCCESS:
        return _offset(answer)
    if new or topic.startswith(system_topics.RETRY_PREFIX) or from_where is ConsumeFromWhere.FIRST_OFFSET:
        header: Header = GetMinOffset(topic=topic, queue_id=number, bname=name)
        return _offset(await _ask(endpoint, queue, RequestCode.GET_MIN_OFFSET, header))
    if from_where is ConsumeFromWhere.TIMESTAMP:
        header = SearchOffset(topic=topic, queue_id=number, timestamp=timestamp_ms, bname=name)
        return _offset(await _ask(endpoint, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header))
    header = GetMaxOffset(topic=topic, queue_id=number, committed=True, bname=name)
    return _offset(await _ask(endpoint, queue, RequestCode.GET_MAX_OFFSET, header))


async def _ask(endpoint: Endpoint, queue: MessageQueue, code: RequestCode, header: Header) -> Command:
    address = endpoint.routes.readable(queue.broker_name)
    if address is None:
        raise Unreachable(queue.broker_name, "the name servers know no address of that broker")
    answer = await endpoint.call(address, code, header)
    first_time = code is RequestCode.QUERY_CONSUMER_OFFSET and answer.code == ResponseCode.QUERY_NOT_FOUND
    if answer.code != ResponseCode.SUCCESS and not first_time:
        raise RequestRejected(answer.code, answer.remark, request=f"first offset of {queue}", address=address)
    return answer


def _offset(answer: Command) -> QueueOffset:
    return QueueOffset(answer.header(OffsetAnswer).offset)
