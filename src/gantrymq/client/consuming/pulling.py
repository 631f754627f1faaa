"""One pull: the request, and what an answer means. Pure.

Source: PullAPIWrapper, PullSysFlag; docs/protocol.md#pulling.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from gantrymq.client.results import PullStatus, RawPull
from gantrymq.errors import RemoteProtocolError, RequestRejected
from gantrymq.message import flags, properties
from gantrymq.message.message import MessageView, StoredMessage
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.message.tags import parse_tag_expression
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.pull import PullMessage, PullMessageAnswer
from gantrymq.protocol.stored_message import scan, to_view

log = logging.getLogger("gantrymq.client")

COMMIT: Final = 1
"""``commit_offset`` is the group's progress; store it."""
SUSPEND: Final = 2
"""The broker may hold the request until there is something."""
INLINE_SUBSCRIPTION: Final = 4
"""The tags travel with the request; no heartbeat is needed."""

DEFAULT_MAX_BYTES: Final = 256 * 1024
"""What Apache's brokers answer at most; ours gives more when asked (4 MiB)."""

ANSWERS: Final = {
    int(ResponseCode.SUCCESS): PullStatus.FOUND,
    int(ResponseCode.PULL_NOT_FOUND): PullStatus.NO_NEW_MSG,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): PullStatus.NO_MATCHED_MSG,
    int(ResponseCode.PULL_OFFSET_MOVED): PullStatus.OFFSET_ILLEGAL,
}


def pull_request(
    group: str,
    queue: MessageQueue,
    offset: int,
    max_count: int,
    max_bytes: int,
    *,
    tags: str = "*",
    wait_ms: int = 0,
    sub_version: int = 0,
    commit_offset: int | None = None,
    inline: bool = True,
    kind: str = "TAG",
) -> PullMessage:
    """The header of a pull. ``inline``: send ``tags`` along (an expression of this ``kind``); else the broker uses the
    group's heartbeat."""
    sys_flag = (SUSPEND if wait_ms else 0) | (INLINE_SUBSCRIPTION if inline else 0)
    return PullMessage(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=max_count,
        sys_flag=sys_flag | (COMMIT if commit_offset else 0),
        commit_offset=commit_offset or 0,
        suspend_timeout_millis=wait_ms,
        sub_version=sub_version,
        subscription=tags if inline else None,
        expression_type=kind,
        max_msg_bytes=max_bytes,
        bname=queue.broker_name,
    )


def pull_answer(answer: Command, queue: MessageQueue, address: str = "") -> RawPull:
    """An answer as a value; raises RequestRejected for codes that are refusals."""
    status = ANSWERS.get(answer.code)
    if status is None:
        raise RequestRejected(answer.code, answer.remark, request=f"pull from {queue}", address=address)
    header = answer.header(PullMessageAnswer)
    return RawPull(
        status=status,
        data=answer.body,
        next_offset=QueueOffset(header.next_begin_offset),
        min_offset=QueueOffset(header.min_offset),
        max_offset=QueueOffset(header.max_offset),
    )


def views(raw: RawPull, queue: MessageQueue, tags: str = "*") -> list[MessageView]:
    """The messages of a pull. Brokers filter by the tag's hash; what only collides with it is dropped here."""
    wanted = parse_tag_expression(tags)
    found: list[MessageView] = []
    low, high = str(raw.min_offset), str(raw.max_offset)
    for stored in scan(raw.data, check=False):
        view = _view(stored, queue)
        if wanted and view.properties.get(properties.TAGS) not in wanted:
            continue
        view.properties[properties.MIN_OFFSET] = low
        view.properties[properties.MAX_OFFSET] = high
        found.append(view)
    return found


def _view(stored: StoredMessage, queue: MessageQueue) -> MessageView:
    """A body that is not compressed as its flag says is given as it is: the flag is damaged, or its producer was wrong.

    Were it refused, nobody would come past it to the messages behind. Raises RemoteProtocolError when a library is
    missing, which can be installed.
    """
    try:
        return to_view(stored, queue.broker_name)
    except RemoteProtocolError as error:
        if isinstance(error.__cause__, ImportError):
            raise
        log.error("message at offset %d of %s: %s; it is delivered as it is stored", stored.queue_offset, queue, error)
        return to_view(replace(stored, sys_flag=stored.sys_flag & ~flags.COMPRESSED), queue.broker_name)
