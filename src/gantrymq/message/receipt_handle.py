"""The receipt handle, which identifies one delivery of a popped message: ``extraInfo`` in requests, the property
POP_CK, and the receipt handle of gRPC. Every door hands out the same text, so a delivery may be ended at another one.

Fields, separated by blanks: start offset of the batch, pop time (ms), invisible time (ms), revive queue, kind of topic
(0 normal, 1 retry, 2 retry in the newer naming), broker name, queue id, queue offset of the message. A client of
remoting builds it from texts in the answer to a pop (``protocol.pop_texts``). Source: ExtraInfoUtil;
docs/protocol.md#pop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.system_topics import RETRY_PREFIX, pop_retry_topic

ORDERLY: Final = 999
"""The revive queue in handles of an orderly pop, which has no check point."""
NORMAL: Final = "0"
RETRY: Final = "1"
RETRY_V2: Final = "2"
_FIELDS_LEAST: Final = 7


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """The fields of a receipt handle. ``offset``: -1 when the text does not contain it."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue: int
    kind: str
    broker_name: str
    queue_id: int
    offset: int = -1

    @property
    def orderly(self) -> bool:
        return self.revive_queue == ORDERLY

    @property
    def visible_at(self) -> int:
        """When the message becomes visible again, in ms since 1970."""
        return self.pop_time + self.invisible_time

    def __str__(self) -> str:
        return (
            f"{self.start_offset} {self.pop_time} {self.invisible_time} {self.revive_queue} {self.kind} "
            f"{self.broker_name} {self.queue_id} {self.offset}"
        )


def parse(text: str) -> ReceiptHandle:
    """Read a handle. Raises RemoteProtocolError when the text is not a handle."""
    fields = text.split(" ")
    if len(fields) < _FIELDS_LEAST:
        raise RemoteProtocolError(f"{text!r} is not a receipt handle: it has {len(fields)} fields of {_FIELDS_LEAST}")
    start, popped, invisible, revive_queue, kind, broker, queue_id, *rest = fields
    try:
        return ReceiptHandle(
            int(start), int(popped), int(invisible), int(revive_queue), kind, broker, int(queue_id),
            int(rest[0]) if rest else -1,
        )  # fmt: skip
    except ValueError as error:
        raise RemoteProtocolError(f"{text!r} is not a receipt handle: {error}") from error


def kind_of(topic: str) -> str:
    """What a receipt handle says about the topic."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY


def real_topic(topic: str, group: str, kind: str) -> str | None:
    """The topic a message of ``kind`` lies in; None for an unknown kind."""
    if kind == NORMAL:
        return topic
    return pop_retry_topic(topic, group, v2=kind == RETRY_V2) if kind in (RETRY, RETRY_V2) else None
