"""One pull: its request, and the meaning of its answer. No I/O.

Source: PullAPIWrapper, PullSysFlag; docs/protocol.md#pulling.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
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
from gantrymq.protocol.compression import LibraryMissing
from gantrymq.protocol.headers.pull import PullMessage, PullMessageAnswer
from gantrymq.protocol.stored_message import scan, to_view

log = logging.getLogger("gantrymq.client")

COMMIT: Final = 1
"""The broker is to store ``commit_offset`` as the group's progress."""
SUSPEND: Final = 2
"""The broker may hold the request until there is a message."""
INLINE_SUBSCRIPTION: Final = 4
"""The request contains the tags, so no heartbeat is needed."""

DEFAULT_MAX_BYTES: Final = 256 * 1024
"""What Apache's brokers return at most. A GantryMQ broker returns up to 4 MiB when asked."""

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
    commit_offset: int | None = None,
    kind: str = "TAG",
) -> PullMessage:
    """The header of a pull, with the expression ``tags`` of this ``kind``, so that the broker needs no heartbeat."""
    sys_flag = (SUSPEND if wait_ms else 0) | INLINE_SUBSCRIPTION
    return PullMessage(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=max_count,
        sys_flag=sys_flag | (COMMIT if commit_offset else 0),
        commit_offset=commit_offset or 0,
        suspend_timeout_millis=wait_ms,
        sub_version=0,
        subscription=tags,
        expression_type=kind,
        max_msg_bytes=max_bytes,
        bname=queue.broker_name,
    )


def pull_answer(answer: Command, queue: MessageQueue, address: str = "") -> RawPull:
    """Read an answer. Raises RequestRejected for codes that are refusals."""
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


def views(raw: RawPull, queue: MessageQueue, tags: str = "*", body_max: int | None = None) -> list[MessageView]:
    """The messages of a pull. Brokers filter by the hash of the tag; messages with another tag of the same hash are
    dropped here. ``body_max``: see ``to_view``."""
    return list(each_view(raw, queue, tags, body_max))


def each_view(
    raw: RawPull, queue: MessageQueue, tags: str = "*", body_max: int | None = None
) -> Iterator[MessageView]:  # fmt: skip
    """The same one by one: only one body is decompressed at a time."""
    wanted = parse_tag_expression(tags)
    low, high = str(raw.min_offset), str(raw.max_offset)
    for stored in scan(raw.data, check=False):
        view = readable(stored, queue, body_max)
        if wanted and view.properties.get(properties.TAGS) not in wanted:
            continue
        view.properties[properties.MIN_OFFSET] = low
        view.properties[properties.MAX_OFFSET] = high
        yield view


def readable(stored: StoredMessage, queue: MessageQueue, body_max: int | None) -> MessageView:
    """One message as the program sees it. If the body is not compressed as its flag says, it is returned unchanged:
    either the flag is damaged, or the producer set it wrongly.

    An error would stop every consumer at this message. Only LibraryMissing is raised, because the library can be
    installed.
    """
    try:
        return to_view(stored, queue.broker_name, body_max)
    except LibraryMissing:
        raise
    except RemoteProtocolError as error:
        log.error("message at offset %d of %s: %s; it is delivered as it is stored", stored.queue_offset, queue, error)
        return to_view(replace(stored, sys_flag=stored.sys_flag & ~flags.COMPRESSED), queue.broker_name, body_max)
