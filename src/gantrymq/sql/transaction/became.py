"""What a row with an ordering key has become: a half message, as the text in the column ``half``.

It has all that an end of the half message needs. So whoever finds the row can repeat the COMMIT.
"""

from __future__ import annotations

import msgspec

from gantrymq.client.results import SendResult, SendStatus, TransactionSendResult
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.errors import TransactionConflict
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.message_ids import log_offset_of
from gantrymq.sql.rows.outbox_table import Row


class _Half(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    """As brokers know it."""
    broker_name: str
    queue_id: int
    queue_offset: int
    """In the half queue."""
    message_id: str
    offset_message_id: str
    transaction_id: str | None


def written(half: SentHalf) -> str:
    """The text of a half message that a broker has stored."""
    sent = half.result
    found = _Half(
        sent.queue.topic, sent.queue.broker_name, sent.queue.queue_id, sent.queue_offset, sent.message_id,
        sent.offset_message_id, sent.transaction_id,
    )  # fmt: skip
    return msgspec.json.encode(found).decode()


def read(row: Row) -> SentHalf:
    """The half message that ``row`` has become."""
    found = msgspec.json.decode(row.half, type=_Half)
    sent = SendResult(
        status=SendStatus.SEND_OK,
        message_id=found.message_id,
        offset_message_id=found.offset_message_id,
        queue=MessageQueue(found.topic, found.broker_name, found.queue_id),
        queue_offset=QueueOffset(found.queue_offset),
        transaction_id=found.transaction_id,
    )
    message = row.message.with_properties({**row.message.properties})
    message.topic = found.topic
    return SentHalf(row.message, message, sent, log_offset_of(found.offset_message_id))


def is_over(end: object) -> bool:
    """Whether nothing is to be expected of a half message whose COMMIT has ended so. A broker that has decided
    otherwise before did that for a person: there is nothing to wait for."""
    return isinstance(end, TransactionConflict) or (isinstance(end, TransactionSendResult) and end.decided)
