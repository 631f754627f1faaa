"""What the records of a transaction show: half, parked copy, op and final message. Values, for those who explain it."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import pack_host
from gantrymq.transactions.table.decisions import Cause, Decision

Identity = tuple[str, str, int, int]
"""(group, UNIQ_KEY, born timestamp, body CRC): equal for all copies of one transaction; see ``rebuild``."""


@dataclass(frozen=True, slots=True)
class HalfRecord:
    """A half message, or its parked copy."""

    identity: Identity
    queue_offset: int
    log_offset: int
    message_id: str
    """Its offset message id."""
    stored_ms: int
    born_ms: int
    born_host: str
    real_topic: str
    real_queue_id: int
    checks: int
    """TRANSACTION_CHECK_TIMES. Our broker writes it only when it parks."""
    put_back: bool
    """An Apache broker wrote it as a copy of an older one."""
    immunity_text: str | None
    keys: str
    tags: str
    local_transaction: str = ""
    """LOCAL_TRANSACTION, when gantrymq.sql sent it: the id of the local transaction, and its database."""

    @property
    def group(self) -> str:
        return self.identity[0]

    @property
    def unique_key(self) -> str:
        return self.identity[1]

    @classmethod
    def of(cls, stored: StoredMessage) -> HalfRecord | None:
        """A record of the half topic or of the parked topic; None when it is no half (a damaged or foreign record)."""
        decoded = properties.decode(stored.properties_text)
        group = decoded.get(properties.PRODUCER_GROUP, "")
        topic = decoded.get(properties.REAL_TOPIC, "")
        queue_id = decoded.get(properties.REAL_QUEUE_ID, "")
        if not group or not topic or not queue_id.isdecimal():
            return None
        checks = decoded.get(properties.CHECK_TIMES, "0")
        return cls(
            identity=(group, decoded.get(properties.UNIQ_KEY, ""), stored.born_timestamp, stored.body_crc),
            queue_offset=stored.queue_offset,
            log_offset=stored.log_offset,
            message_id=offset_message_id(pack_host(stored.store_host), stored.log_offset),
            stored_ms=stored.store_timestamp,
            born_ms=stored.born_timestamp,
            born_host=stored.born_host,
            real_topic=topic,
            real_queue_id=int(queue_id),
            checks=int(checks) if checks.isdecimal() else 0,
            put_back=properties.PREPARED_QUEUE_OFFSET in decoded or checks != "0",
            immunity_text=decoded.get(properties.CHECK_IMMUNITY_SECONDS),
            keys=decoded.get(properties.KEYS, ""),
            tags=decoded.get(properties.TAGS, ""),
            local_transaction=decoded.get(properties.LOCAL_TRANSACTION, ""),
        )


@dataclass(frozen=True, slots=True)
class OpRecord:
    """The record that settles a half."""

    queue_offset: int
    stored_ms: int
    decision: Decision
    """SETTLED when it was written by an Apache broker, which does not say how."""
    cause: Cause | None = None
    """None when an Apache broker wrote it."""
    by: str = ""
    """``ip:port`` of the client that ended it; the broker's own when it parked it, or completed it at its start."""
    note: str = ""
    """The operator's name and reason."""

    @classmethod
    def of(cls, stored: StoredMessage) -> OpRecord:
        """A record of the op queue."""
        cause = Cause.of_op(stored.flag)
        return cls(
            queue_offset=stored.queue_offset,
            stored_ms=stored.store_timestamp,
            decision=Decision.of_op(stored.flag),
            cause=cause,
            by="" if cause is None else stored.born_host,
            note=properties.find(stored.properties_text, properties.ENDED_BY) or "",
        )


@dataclass(frozen=True, slots=True)
class FinalRecord:
    """The message consumers get."""

    half_log_offset: int
    """Which half was committed."""
    topic: str
    queue_id: int
    queue_offset: int
    stored_ms: int
    message_id: str

    @classmethod
    def of(cls, stored: StoredMessage) -> FinalRecord:
        """The message of a committed transaction."""
        return cls(
            half_log_offset=stored.prepared_transaction_offset,
            topic=stored.topic,
            queue_id=stored.queue_id,
            queue_offset=stored.queue_offset,
            stored_ms=stored.store_timestamp,
            message_id=offset_message_id(pack_host(stored.store_host), stored.log_offset),
        )
