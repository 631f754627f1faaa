"""What a client sends is checked, and keeps all that its sender gave it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.broker.grpc.incoming import check_group, check_topic, queue_of, submission_of
from gantrymq.broker.grpc.statuses import Rejected
from gantrymq.grpc.definition_pb2 import Code, Encoding, Message, MessageType
from gantrymq.message import flags, properties
from gantrymq.message.tags import java_hash
from tests.support.grpc_client import message

LIMIT = 1000


def with_property(name: str, value: str = "v") -> Message:
    made = message("orders")
    made.user_properties[name] = value
    return made


def with_many(count: int) -> Message:
    made = message("orders")
    for number in range(count):
        made.user_properties[f"p{number}"] = "v"
    return made


def with_recovery(seconds: int) -> Message:
    made = message("orders", message_type=MessageType.TRANSACTION)
    made.system_properties.orphaned_transaction_recovery_duration.seconds = seconds
    return made


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (message("orders", b""), Code.MESSAGE_BODY_EMPTY),
        (message("orders", b"x" * (LIMIT + 1)), Code.MESSAGE_BODY_TOO_LARGE),
        (message(""), Code.ILLEGAL_TOPIC),
        (message("a/b"), Code.ILLEGAL_TOPIC),
        (message("RMQ_SYS_TRANS_HALF_TOPIC"), Code.ILLEGAL_TOPIC),
        (message("orders", message_id=""), Code.ILLEGAL_MESSAGE_ID),
        (message("orders", tag=" "), Code.ILLEGAL_MESSAGE_TAG),
        (message("orders", tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
        (message("orders", tag="a\x01"), Code.ILLEGAL_MESSAGE_TAG),
        (message("orders", keys=["ok", " "]), Code.ILLEGAL_MESSAGE_KEY),
        (message("orders", message_group=""), Code.ILLEGAL_MESSAGE_GROUP),
        (message("orders", message_group="g" * 64), Code.ILLEGAL_MESSAGE_GROUP),
        (with_property("TRAN_MSG", "true"), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (with_property("UNIQ_KEY"), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (with_property("a\x02b"), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (with_property("a", "b\x01"), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (with_property("a", "b" * 17_000), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (with_many(129), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (with_recovery(3601), Code.BAD_REQUEST),
        (message("orders", message_type=MessageType.LITE), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message("orders", message_type=MessageType.PRIORITY), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message("orders", priority=1), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message("orders", message_type=MessageType.PRIORITY, priority=-1), Code.BAD_REQUEST),
        (message("orders", message_type=77), Code.BAD_REQUEST),
    ],
    ids=str,
)
def test_what_breaks_a_rule_is_refused_with_the_code_that_says_which(made: Message, code: Code) -> None:
    with pytest.raises(Rejected) as caught:
        submission_of(made, LIMIT)
    assert Code.Name(caught.value.code) == Code.Name(code)


def test_everything_that_the_sender_gave_is_stored() -> None:
    made = message("orders", tag="paid", keys=["k1", "k2"], message_group="customer-1", trace_context="00-a-b-01")
    made.user_properties["colour"] = "grün"
    stored = submission_of(made, LIMIT)
    assert properties.decode(stored.properties or "") == {
        "colour": "grün",
        "UNIQ_KEY": made.system_properties.message_id,
        "TAGS": "paid",
        "KEYS": "k1 k2",
        "__SHARDINGKEY": "customer-1",
        "TRACE_CONTEXT": "00-a-b-01",
    }
    assert (stored.topic, stored.producer_group, stored.born_timestamp) == ("orders", "orders", 1_700_000_000_000)
    assert (stored.sys_flag, stored.queue_id) == (0, -1)


def test_a_half_message_has_the_group_of_its_topic_and_the_immunity_that_its_producer_asks_for() -> None:
    stored = submission_of(with_recovery(30), LIMIT)
    values = properties.decode(stored.properties or "")
    assert stored.sys_flag == flags.PREPARED
    assert values["TRAN_MSG"] == "true"
    assert values["PGROUP"] == "orders"
    assert values["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "30"


def test_a_delayed_message_in_a_transaction_is_refused() -> None:
    made = message("orders", message_type=MessageType.TRANSACTION)
    made.system_properties.delivery_timestamp.seconds = 2_000_000_000
    with pytest.raises(Rejected) as caught:
        submission_of(made, LIMIT)
    assert caught.value.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_a_time_of_delivery_and_a_compressed_body_are_told_to_the_broker() -> None:
    made = message("orders", body_encoding=Encoding.GZIP, message_type=MessageType.DELAY)
    made.system_properties.delivery_timestamp.seconds = 2_000_000_000
    made.system_properties.delivery_timestamp.nanos = 5_000_000
    stored = submission_of(made, LIMIT)
    assert stored.sys_flag & flags.COMPRESSED
    assert properties.find(stored.properties or "", properties.TIMER_DELIVER_MS) == "2000000000005"


@pytest.mark.parametrize(
    ("check", "name", "code"),
    [
        (check_group, "", Code.ILLEGAL_CONSUMER_GROUP),
        (check_group, "CID_RMQ_SYS_TRANS", Code.ILLEGAL_CONSUMER_GROUP),
        (check_topic, "x" * 128, Code.ILLEGAL_TOPIC),
    ],
)
def test_names_that_belong_to_the_system_or_break_a_rule_are_refused(
    check: Callable[[str], str], name: str, code: Code
) -> None:
    with pytest.raises(Rejected) as caught:
        check(name)
    assert caught.value.code == code


def test_a_message_group_has_one_queue_and_groups_have_all() -> None:
    queues = [queue_of(f"customer-{number}", 4) for number in range(1000)]
    assert queues == [queue_of(f"customer-{number}", 4) for number in range(1000)]
    assert set(queues) == {0, 1, 2, 3}
    assert {queue_of("any", 1), queue_of("other", 1)} == {0}


def test_more_queues_move_few_groups() -> None:
    names = [f"customer-{number}" for number in range(2000)]
    moved = sum(queue_of(name, 8) != queue_of(name, 9) for name in names)
    assert moved < 2000 / 9 * 1.5, java_hash(names[0])
