"""A half message comes back from the row that it has become, with all that its end needs."""

from __future__ import annotations

import pytest

from gantrymq.client.results import SendResult, SendStatus, TransactionSendResult
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.errors import TransactionConflict, Unreachable
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.outbox_table import HALF_CHARS, Row
from gantrymq.sql.transaction import became

OFFSET_ID = "7F00000100002A9F00000000000004D2"


def sent(topic: str, broker: str, transaction_id: str | None) -> SentHalf:
    result = SendResult(
        status=SendStatus.SEND_OK, message_id="7F0000010B5E18B4AAC249D0B6370000", offset_message_id=OFFSET_ID,
        queue=MessageQueue(topic, broker, 3), queue_offset=QueueOffset(77), transaction_id=transaction_id,
    )  # fmt: skip
    message = Message(topic, b"x", properties={"colour": "blue"})
    return SentHalf(Message("orders", b"x", properties={"colour": "blue"}), message, result, 1234)


@pytest.mark.parametrize("transaction_id", [None, "another"])
def test_a_half_message_comes_back(transaction_id: str | None) -> None:
    half = sent("space%orders", "broker-a", transaction_id)
    row = Row("r-1", half.given, "key", became.written(half))
    assert became.read(row) == half
    assert row.message.topic == "orders", "the message of the row is as it was"


def test_the_longest_one_fits_into_its_column() -> None:
    assert len(became.written(sent("ü" * 255, "b" * 255, "t" * 64))) <= HALF_CHARS


def result(decided: bool) -> TransactionSendResult:
    return TransactionSendResult(
        status=SendStatus.SEND_OK, message_id="m", offset_message_id=OFFSET_ID, queue=MessageQueue("t", "b", 0),
        queue_offset=QueueOffset(0), state=LocalTransactionState.COMMIT, decided=decided,
    )  # fmt: skip


def test_which_ends_end_a_row() -> None:
    conflict = TransactionConflict(604, "rolled back by an operator", "m", result(False))
    assert became.is_over(result(True)) and became.is_over(conflict)
    assert not became.is_over(result(False)) and not became.is_over(None)
    assert not became.is_over(Unreachable("127.0.0.1:1", "it is gone"))
