"""The records of a transaction, against those of Apache's brokers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gantrymq.errors import CorruptRecord
from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset, QueueOffset
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.protocol.stored_message import decode_record, pack_host
from gantrymq.store.values import NewRecord
from gantrymq.transactions.records import half
from gantrymq.transactions.records.check_message import message_to_check
from gantrymq.transactions.table.decisions import Cause, Decision
from tests.support.halves import half_record

HOST = pack_host("127.0.0.1:40000")
SENT = {
    "MSG_REGION": "DefaultRegion", "UNIQ_KEY": "C0A8", "CLUSTER": "DefaultCluster", "PGROUP": "PG_tx",
    "TAGS": "TagB", "TRAN_MSG": "true", "KEYS": "k1 k2", "WAIT": "true", "colour": "green",
}  # fmt: skip


def sent(text: str | None = None, **fields: Any) -> NewRecord:
    values: dict[str, Any] = {
        "topic": "Orders", "queue_id": 3, "body": b"paid", "flag": 777, "sys_flag": flags.PREPARED | flags.COMPRESSED,
        "born_timestamp": 1234, "born_host": HOST, "reconsume_times": 2,
    }  # fmt: skip
    return NewRecord(properties=properties.encode(SENT) if text is None else text, **(values | fields))


def stored(record: NewRecord, log_offset: int = 4290, queue_offset: int = 8) -> StoredMessage:
    return StoredMessage(
        record.topic, record.queue_id, QueueOffset(queue_offset), LogOffset(log_offset), 0, record.flag,
        record.sys_flag, record.born_timestamp, "127.0.0.1:40000", 5678, "127.0.0.1:30911", record.reconsume_times,
        LogOffset(0), 0, record.body, record.properties,
    )  # fmt: skip


def test_a_half_is_parked_under_the_half_topic_with_everything_its_sender_gave() -> None:
    record = half_record(sent(), "Orders", 3, "C0A8")
    assert (record.topic, record.queue_id) == (HALF, 0)
    assert (record.body, record.flag, record.born_timestamp, record.born_host) == (b"paid", 777, 1234, HOST)
    assert record.reconsume_times == 2
    assert record.sys_flag == flags.COMPRESSED
    assert record.prepared_transaction_offset == 0
    assert properties.decode(record.properties) == SENT | {
        "__transactionId__": "C0A8", "REAL_TOPIC": "Orders", "REAL_QID": "3",
    }  # fmt: skip


def test_g50_a_final_message_equals_what_was_sent() -> None:
    """G50; 5.5.0 stores it without REAL_TOPIC and REAL_QID."""
    record = half.final_record(half_record(sent(), "Orders", 3, "C0A8"), "Orders", 3, 4290)
    assert (record.topic, record.queue_id) == ("Orders", 3)
    assert (record.body, record.flag, record.born_timestamp, record.born_host) == (b"paid", 777, 1234, HOST)
    assert record.reconsume_times == 2
    assert record.sys_flag == flags.COMPRESSED | flags.COMMITTED
    assert record.prepared_transaction_offset == 4290
    assert properties.decode(record.properties) == SENT | {"__transactionId__": "C0A8"}


@pytest.mark.parametrize("decision", [Decision.COMMITTED, Decision.ROLLED_BACK, Decision.PARKED])
def test_an_op_is_readable_by_every_apache_version_and_remembers_the_decision_in_its_flag(decision: Decision) -> None:
    record = half.op_record(29, decision, 99, HOST)
    assert (record.topic, record.queue_id, record.body) == (OP, 0, b"29")
    assert properties.decode(record.properties) == {"TAGS": "d", "WAIT": "true"}
    assert Decision.of_op(record.flag) is decision
    assert Cause.of_op(record.flag) is Cause.PRODUCER
    assert record.sys_flag == 0


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("decision", [Decision.COMMITTED, Decision.ROLLED_BACK, Decision.PARKED])
def test_an_op_says_who_ended_it_and_why_where_apache_does_not_look(decision: Decision, cause: Cause) -> None:
    by = pack_host("192.0.2.7:4711")
    record = half.op_record(29, decision, 99, by, cause, "ann@coordinator: ticket 7\x01\x02\n")
    assert (record.topic, record.queue_id, record.body, record.born_host) == (OP, 0, b"29", by)
    assert (Decision.of_op(record.flag), Cause.of_op(record.flag)) == (decision, cause)
    assert properties.decode(record.properties) == {
        "TAGS": "d", "WAIT": "true", "GANTRY_ENDED_BY": "ann@coordinator: ticket 7"
    }  # fmt: skip


@pytest.mark.parametrize("flag", [0, 1, 16, 4 | 6 << 4, 8 | 1 << 20, -1])
def test_a_flag_that_we_did_not_write_says_nothing(flag: int) -> None:
    assert (Decision.of_op(flag), Cause.of_op(flag)) == (Decision.SETTLED, None)


@pytest.mark.parametrize(("body", "offsets"), [(b"3", [3]), (b"3,4,5,", [3, 4, 5]), (b"", []), (b"x,-1,7,", [7])])
def test_op_bodies_of_all_versions_are_read(body: bytes, offsets: list[int]) -> None:
    assert half.parse_op(body) == offsets


@given(st.integers(0, 2**62))
def test_op_bodies_round_trip(offset: int) -> None:
    assert half.parse_op(half.op_record(offset, Decision.COMMITTED, 0, HOST).body) == [offset]


@given(st.lists(st.integers(0, 10**15 - 1), min_size=1, max_size=600))
def test_half_messages_that_end_together_share_op_messages_of_at_most_4096_bytes(offsets: list[int]) -> None:
    bodies = half.op_bodies(offsets)
    assert [offset for body in bodies for offset in half.parse_op(body)] == offsets
    assert max(len(body) for body in bodies) <= 4096
    alone = half.op_bodies(offsets, 1)
    assert alone == [b"%d" % offset for offset in offsets], "as 4.x brokers read it"


def test_a_parked_half_keeps_its_real_place_and_tells_the_checks() -> None:
    record = half.parked_record(half_record(sent(), "Orders", 3, "C0A8"), 4290, 15)
    assert (record.topic, record.queue_id, record.prepared_transaction_offset) == (PARKED, 0, 4290)
    decoded = properties.decode(record.properties)
    assert (decoded["REAL_TOPIC"], decoded["REAL_QID"], decoded["TRANSACTION_CHECK_TIMES"]) == ("Orders", "3", "15")


def test_a_check_shows_the_half_under_its_real_topic_at_the_place_of_the_half() -> None:
    message = stored(half_record(sent(), "Orders", 3, "C0A8"))
    shown = decode_record(message_to_check(message, half.read_half(message), 2))
    assert (shown.topic, shown.queue_id) == ("Orders", 3)
    assert (shown.queue_offset, shown.log_offset) == (8, 4290)
    assert (shown.body, shown.flag, shown.sys_flag) == (b"paid", 777, flags.COMPRESSED)
    decoded = properties.decode(shown.properties_text)
    assert decoded["TRANSACTION_CHECK_TIMES"] == "2"
    assert decoded["PGROUP"] == "PG_tx"


@pytest.mark.parametrize(
    "text",
    [
        "REAL_TOPIC\x01T\x02REAL_QID\x013\x02A\x01b\x02",
        "A\x01b\x02REAL_QID\x013\x02REAL_TOPIC\x01T",
        "A\x01b\x02REAL_TOPIC\x01T\x02REAL_QID\x013\x02",
        "REAL_TOPIC\x01T\x02REAL_QID\x013\x02A\x01b",
        "A\x01b",
    ],
)
def test_the_real_place_is_taken_off_wherever_it_stands(text: str) -> None:
    assert properties.decode(half.final_properties(text)) == {"A": "b"}


def test_a_property_that_only_looks_like_the_real_place_stays() -> None:
    text = "MY_REAL_TOPIC\x01T\x02REAL_QID\x013\x02"
    assert properties.decode(half.final_properties(text)) == {"MY_REAL_TOPIC": "T"}


@pytest.mark.parametrize("missing", ["PGROUP", "REAL_TOPIC", "REAL_QID"])
def test_a_record_without_group_or_real_place_is_no_half(missing: str) -> None:
    decoded = properties.decode(half_record(sent(), "Orders", 3, "C0A8").properties)
    del decoded[missing]
    message = stored(half_record(sent(), "Orders", 3, "C0A8"))
    damaged = replace(message, properties_text=properties.encode(decoded))
    with pytest.raises(CorruptRecord, match="no half message"):
        half.read_half(damaged)


def test_a_record_read_back_makes_the_same_final_message() -> None:
    record = half_record(sent(), "Orders", 3, "C0A8")
    again = half.new_record_of(stored(record))
    assert half.final_record(again, "Orders", 3, 1) == half.final_record(record, "Orders", 3, 1)
