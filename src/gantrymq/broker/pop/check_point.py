"""The records of the revive topic: check points and acknowledgements, as Apache's broker writes and reads them.

A check point (TAGS=ck) says that messages of one queue were handed to a group, and until when. An acknowledgement (ack,
or bAck for several) names the check point by topic, group, queue, start offset, pop time and broker. The body is JSON:

    ck    bm  bit map, 0   bn  broker   c  group   d  distances from so   it  invisible ms   n  messages   pt  pop time
          q   queue        ro  0        so start   sp count no attempt    t   topic          rp  times put again
          gh  for whom a door prolongs it, and    gf  the pop that began it (ours; Apache's brokers pass them over)
    ack   ao  offset   (bAck: aol  offsets)   bn c pt q so t  of the check point

Apache parks these records in its timer until they are due. Ours are put into the revive topic at once: that is half the
writing, and everything is read back from one place. TIMER_DELIVER_MS then says when the record came: Apache's revive
service takes its idea of "now" from it, and would otherwise never, or too early, revive.

Source: PopCheckPoint, AckMsg, BatchAckMsg, PopReviveService of 5.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from gantrymq.errors import RemoteProtocolError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import REVIVE_PREFIX

REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""Its offset on a revive queue: the last record that is not needed any more (not the next, as for other groups)."""
APPLIED_GROUP: Final = "CID_RMQ_SYS_REVIVE_APPLIED"
"""Ours: the last record of a revive queue whose check point the consumer offsets in the same file know about."""
CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
COUNT_MAX: Final = 127
"""Most messages of a check point that does not list them. Source: PopCheckPoint.num, a byte."""

Key: TypeAlias = tuple[str, str, int, int, int, str]
"""What an acknowledgement names: topic, group, queue id, start offset, pop time, broker name."""


def revive_topic(cluster: str) -> str:
    return REVIVE_PREFIX + cluster


@dataclass(frozen=True, slots=True)
class CheckPoint:
    """Messages of one queue that one pop handed out."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int
    """ms since 1970"""
    invisible_time: int
    """ms"""
    broker_name: str
    distances: tuple[int, ...]
    """Of the messages from ``start_offset``."""
    suspend: bool = False
    """The delivery does not count as an attempt."""
    holder: str = ""
    """The client for which a door prolongs the delivery while it lives."""
    first_pop: int = 0
    """ms since 1970 of the pop that began such a delivery: its client has the receipt handle of that one."""

    @property
    def key(self) -> Key:
        return (self.topic, self.group, self.queue_id, self.start_offset, self.pop_time, self.broker_name)

    @property
    def visible_at(self) -> int:
        """ms since 1970 when what is not acknowledged comes back."""
        return self.pop_time + self.invisible_time

    @property
    def next_offset(self) -> int:
        """Behind the last message."""
        return self.start_offset + self.distances[-1] + 1


@dataclass(frozen=True, slots=True)
class Ack:
    """Messages of a check point that were consumed."""

    key: Key
    offsets: tuple[int, ...]


class _CheckPointBody(msgspec.Struct, frozen=True):
    topic: str = msgspec.field(name="t")
    group: str = msgspec.field(name="c")
    start_offset: int = msgspec.field(name="so")
    pop_time: int = msgspec.field(name="pt")
    invisible_time: int = msgspec.field(name="it")
    count: int = msgspec.field(name="n")
    queue_id: int = msgspec.field(name="q", default=0)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    distances: list[int] | None = msgspec.field(name="d", default=None)
    suspend: bool = msgspec.field(name="sp", default=False)
    holder: str = msgspec.field(name="gh", default="")
    first_pop: int = msgspec.field(name="gf", default=0)


class _AckBody(msgspec.Struct, frozen=True):
    topic: str = msgspec.field(name="t")
    group: str = msgspec.field(name="c")
    start_offset: int = msgspec.field(name="so")
    pop_time: int = msgspec.field(name="pt")
    queue_id: int = msgspec.field(name="q", default=0)
    broker_name: str | None = msgspec.field(name="bn", default=None)
    offset: int = msgspec.field(name="ao", default=-1)
    offsets: list[int] | None = msgspec.field(name="aol", default=None)


_decode_check_point: Final = msgspec.json.Decoder(_CheckPointBody).decode
_decode_ack: Final = msgspec.json.Decoder(_AckBody).decode
_encode: Final = msgspec.json.Encoder().encode


def check_point_body(point: CheckPoint) -> bytes:
    renewed = {"gf": point.first_pop, "gh": point.holder} if point.holder else {}
    return _encode(
        {
            **renewed, "bm": 0, "bn": point.broker_name, "c": point.group, "d": point.distances,
            "it": point.invisible_time, "n": len(point.distances), "pt": point.pop_time, "q": point.queue_id,
            "reviveTime": point.visible_at, "ro": 0, "so": point.start_offset, "sp": point.suspend, "t": point.topic,
        }
    )  # fmt: skip


def ack_body(key: Key, offsets: Sequence[int]) -> bytes:
    """``ack`` for one offset, ``bAck`` for several."""
    topic, group, queue_id, start, pop_time, broker = key
    named = {"ao": offsets[0]} if len(offsets) == 1 else {"ao": -1, "aol": offsets}
    return _encode({**named, "bn": broker, "c": group, "pt": pop_time, "q": queue_id, "so": start, "t": topic})


def record_properties(tag: str, now_ms: int) -> str:
    """Of a record of the revive topic that is put there at ``now_ms``."""
    return f"TAGS\x01{tag}\x02TIMER_DELIVER_MS\x01{now_ms}\x02"


def ack_tag(offsets: Sequence[int]) -> str:
    return ACK_TAG if len(offsets) == 1 else BATCH_ACK_TAG


def decode(record: StoredMessage, broker_name: str) -> CheckPoint | Ack | None:
    """What a record of the revive topic says; None for something else.

    ``broker_name``: meant when the record names none. Raises RemoteProtocolError when the body is malformed.
    """
    tag = properties.find(record.properties_text, properties.TAGS)
    try:
        if tag == CHECK_POINT_TAG:
            body = _decode_check_point(record.body)
            if not body.distances and body.count > COUNT_MAX:
                raise RemoteProtocolError(f"a record of the revive topic is malformed: {body.count} messages")
            distances = tuple(body.distances or range(max(body.count, 1)))
            return CheckPoint(
                body.topic, body.group, body.queue_id, body.start_offset, body.pop_time, body.invisible_time,
                body.broker_name or broker_name, distances, body.suspend, body.holder, body.first_pop,
            )  # fmt: skip
        if tag in (ACK_TAG, BATCH_ACK_TAG):
            ack = _decode_ack(record.body)
            offsets = ack.offsets if tag == BATCH_ACK_TAG else [ack.offset]
            key = (
                ack.topic, ack.group, ack.queue_id, ack.start_offset, ack.pop_time, ack.broker_name or broker_name,
            )  # fmt: skip
            return Ack(key, tuple(offsets or ()))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"a record of the revive topic is malformed: {error}") from error
    return None
