"""Messages as one pop hands them out, and the names of the topics they lie in."""

from __future__ import annotations

import pytest

from gantrymq.broker.pop.check_point import revive_topic
from gantrymq.broker.pop.values import Batch, as_first_sent, queue_offsets
from gantrymq.errors import CorruptRecord
from gantrymq.message import properties
from gantrymq.message.receipt_handle import ReceiptHandle, kind_of, parse, real_topic
from gantrymq.message.system_topics import normal_topic, pop_retry_topic
from gantrymq.protocol.stored_message import pack_host, scan
from tests.support.records import encode_record

HOST = pack_host("127.0.0.1:10911")


def record(topic: str, offset: int, body: bytes, text: str = "TAGS\x01A") -> bytes:
    return encode_record(topic.encode(), body, text.encode(), 0, offset, 4096 + offset, 1, HOST, 2, HOST, 7, 0, 3)


def batch(topic: str, **more: str) -> Batch:
    data = record(topic, 5, b"a", **more) + record(topic, 7, b"longer")
    return Batch(topic, 0, 4, 8, queue_offsets(data), data)


def test_offsets_are_read_from_the_records() -> None:
    assert batch("T").offsets == [5, 7]
    assert queue_offsets(b"") == []


@pytest.mark.parametrize("size", [bytes(4), b"\0\0\0\x5a"])
def test_a_record_that_says_it_has_no_size_holds_nobody(size: bytes) -> None:
    good, bad = record("T", 5, b"a"), record("T", 6, b"b")
    with pytest.raises(CorruptRecord, match="log offset 4102 is corrupt"):
        queue_offsets(good + size + bad[4:])


def test_normal_messages_are_handed_out_as_they_are() -> None:
    found = batch("T")
    assert as_first_sent(found, "T", 1, 2, 3, "b") is found.data


@pytest.mark.parametrize(("topic", "kind"), [("%RETRY%G_T", "1"), ("%RETRY%G+T", "2")])
def test_retried_messages_get_back_their_topic_and_bring_their_handles(topic: str, kind: str) -> None:
    found = batch(topic)
    first, second = scan(as_first_sent(found, "T", 100, 50, 3, "b"))
    for message, offset, body in ((first, 5, b"a"), (second, 7, b"longer")):
        assert (message.topic, message.body, message.queue_offset, message.reconsume_times) == ("T", body, offset, 3)
        assert (message.flag, message.log_offset) == (7, 4096 + offset)
        handle = properties.find(message.properties_text, properties.POP_CHECK_POINT)
        assert handle is not None
        assert parse(handle) == ReceiptHandle(4, 100, 50, 3, kind, "b", 0, offset)
        assert properties.find(message.properties_text, properties.TAGS) == "A"


def test_a_handle_that_is_there_stays() -> None:
    first, _ = scan(as_first_sent(batch("%RETRY%G_T", text="POP_CK\x01mine\x02"), "T", 100, 50, 3, "b"))
    assert first.properties_text == "POP_CK\x01mine\x02"


def test_names_are_apaches() -> None:
    assert revive_topic("DefaultCluster") == "rmq_sys_REVIVE_LOG_DefaultCluster"
    assert pop_retry_topic("T", "G") == "%RETRY%G_T"
    assert pop_retry_topic("T", "G", v2=True) == "%RETRY%G+T"


@pytest.mark.parametrize("v2", [False, True])
def test_a_retry_topic_tells_its_topic(v2: bool) -> None:
    topic = pop_retry_topic("my_topic", "my_group", v2=v2)
    assert normal_topic(topic, "my_group") == "my_topic"
    assert real_topic("my_topic", "my_group", kind_of(topic)) == topic


def test_a_normal_topic_is_its_own() -> None:
    assert (normal_topic("T", "G"), kind_of("T"), real_topic("T", "G", "0")) == ("T", "0", "T")
    assert real_topic("T", "G", "3") is None
