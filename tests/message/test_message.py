from __future__ import annotations

import pickle

import msgspec
import pytest

from gantrymq.errors import MessageIllegal
from gantrymq.message import flags
from gantrymq.message.message import Message, MessageView, StoredMessage
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset


def test_a_message_holds_its_parts_as_properties() -> None:
    message = Message(
        "orders", "text", tags="vip", keys=["k1", 2], properties={"colour": "red"}, flag=7, delay_level=3, wait=False
    )
    assert message.body == b"text"
    assert message.properties == {"colour": "red", "TAGS": "vip", "KEYS": "k1 2", "DELAY": "3", "WAIT": "false"}
    assert (message.tags, message.keys, message.delay_level, message.flag) == ("vip", ["k1", "2"], 3, 7)


def test_a_plain_message_has_no_properties() -> None:
    message = Message("orders", bytearray(b"\0\1"))
    assert message.body == b"\0\1"
    assert message.properties == {}
    assert (message.tags, message.keys, message.delay_level) == (None, [], 0)
    assert message.unique_key is None
    assert message.transaction_id is None


def test_keys_as_one_text() -> None:
    assert Message("T", b"x", keys="k1 k2").keys == ["k1", "k2"]


def test_the_transaction_id_is_the_unique_key_unless_given() -> None:
    message = Message("T", b"x")
    message.properties["UNIQ_KEY"] = "U"
    assert (message.unique_key, message.transaction_id) == ("U", "U")
    message.properties["__transactionId__"] = "X"
    assert message.transaction_id == "X"


@pytest.mark.parametrize("name", ["TAGS", "UNIQ_KEY", "TRAN_MSG", "REAL_TOPIC", "PGROUP", "TRANSACTION_CHECK_TIMES"])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(MessageIllegal, match=f"'{name}' is reserved"):
        Message("T", b"x", properties={name: "v"})


@pytest.mark.parametrize(("name", "value"), [("", "v"), ("n", "")])
def test_empty_user_properties_are_refused(name: str, value: str) -> None:
    with pytest.raises(MessageIllegal, match="needs a name and a value"):
        Message("T", b"x").put_user_property(name, value)


def stored() -> StoredMessage:
    return StoredMessage(
        topic="T",
        queue_id=0,
        queue_offset=QueueOffset(1),
        log_offset=LogOffset(2),
        size=100,
        flag=0,
        sys_flag=0,
        born_timestamp=3,
        born_host="10.0.0.1:1",
        store_timestamp=4,
        store_host="10.0.0.2:2",
        reconsume_times=0,
        prepared_transaction_offset=LogOffset(0),
        body_crc=0,
        body=b"x",
        properties_text="",
    )


def view(properties: dict[str, str], sys_flag: int = 0) -> MessageView:
    return MessageView(
        topic="T",
        body=b"x",
        properties=properties,
        flag=0,
        queue=MessageQueue("T", "b", 0),
        queue_offset=QueueOffset(0),
        message_id="U",
        offset_message_id="O",
        born_timestamp=0,
        born_host="",
        store_timestamp=0,
        store_host="",
        reconsume_times=0,
        log_offset=LogOffset(0),
        sys_flag=sys_flag,
    )


def test_stored_messages_are_values() -> None:
    message = stored()
    assert message == stored()
    assert pickle.loads(pickle.dumps(message)) == message
    with pytest.raises(AttributeError):
        message.queue_id = 5  # type: ignore[misc]
    assert msgspec.structs.replace(message, queue_id=5).queue_id == 5


def test_a_view_reads_its_properties() -> None:
    observed = view({"TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "U"})
    assert (observed.tags, observed.keys, observed.transaction_id) == ("A", ["k1", "k2"], "U")
    assert view({"UNIQ_KEY": "U", "__transactionId__": "X"}).transaction_id == "X"
    assert (view({}).tags, view({}).keys, view({}).transaction_id) == (None, [], None)
    assert not observed.compressed_when_stored
    assert view({}, flags.COMPRESSED).compressed_when_stored


@pytest.mark.parametrize("priority", [0, 1, 2**31 - 1])
def test_a_priority_is_a_property(priority: int) -> None:
    message = Message("T", b"x", priority=priority)
    assert message.properties == {"_SYS_MSG_PRIORITY_": str(priority)}
    assert message.priority == priority
    assert Message("T", b"x").priority is None
    assert view(message.properties).priority == priority
    assert view({"_SYS_MSG_PRIORITY_": "high"}).priority is None


@pytest.mark.parametrize("priority", [-1, 2**31, 1.5, "1", True, b"1"])
def test_what_is_not_a_priority_is_refused(priority: object) -> None:
    with pytest.raises(MessageIllegal, match="priority must be a whole number from 0 to 2147483647, not"):
        Message("T", b"x", priority=priority)  # type: ignore[arg-type]


@pytest.mark.parametrize("delay", [{"delay_level": 3}, {"delay_ms": 5_000}, {"deliver_at_ms": 1_900_000_000_000}])
def test_a_delayed_message_has_no_priority(delay: dict[str, int]) -> None:
    with pytest.raises(MessageIllegal, match="a delayed message cannot have a priority"):
        Message("T", b"x", priority=1, **delay)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", " ", "a/b", "a$b", "ä", "x" * 65, 7, None.__class__, b"a"])
def test_what_is_not_a_lite_topic_is_refused(name: object) -> None:
    with pytest.raises(MessageIllegal, match="lite_topic must have 1 to 64 letters, digits, '-' and '_', and not be"):
        Message("T", b"x", lite_topic=name)  # type: ignore[arg-type]


def test_a_lite_topic_is_a_property_and_excludes_others() -> None:
    message = Message("T", b"x", lite_topic="basket-17")
    assert (message.properties, message.lite_topic) == ({"__LITE_TOPIC": "basket-17"}, "basket-17")
    assert view(message.properties).lite_topic == "basket-17"
    for other in ({"delay_level": 3}, {"priority": 1}):
        with pytest.raises(MessageIllegal, match="a message to a lite topic cannot be delayed, and cannot have a"):
            Message("T", b"x", lite_topic="a", **other)  # type: ignore[arg-type]
