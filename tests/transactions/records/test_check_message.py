"""The message of a check that is made of stored bytes is the one that is made of values, or there is none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message import properties
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES
from gantrymq.message.system_topics import HALF
from gantrymq.protocol.stored_message import decode_record, pack_host
from gantrymq.transactions.records.check_message import message_of_record, message_to_check, store_host_of
from gantrymq.transactions.records.half import read_half
from tests.support.records import encode_record

HOST = pack_host("192.0.2.7:10911")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20)


def stored(text: str, *, topic: str = HALF, host: bytes = HOST, body: bytes = b"paid") -> bytes:
    return encode_record(
        topic.encode(), body, text.encode(), 0, 7, 4711, 1_795_000_000_000, host, 1_795_000_000_001, HOST, 3, 1, 2
    )


def text_of(group: str, topic: str, queue_id: int, **more: str) -> str:
    place = {properties.REAL_TOPIC: topic, properties.REAL_QUEUE_ID: str(queue_id)}
    return properties.encode({"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": "K"} | more | place)


@given(NAMES, NAMES, st.integers(0, 99), NAMES, st.integers(0, 20), st.binary(max_size=50))
def test_both_ways_give_the_same(group: str, topic: str, queue_id: int, value: str, checks: int, body: bytes) -> None:
    record = stored(text_of(group, topic, queue_id, KEYS=value), body=body)
    message = decode_record(record)
    made = message_of_record(record, 7, 4711, group, topic, queue_id, checks)
    assert made == message_to_check(message, read_half(message), checks)
    assert store_host_of(record) == HOST


def made_of(record: bytes, queue_offset: int = 7, log_offset: int = 4711, group: str = "PG") -> bytes | None:
    return message_of_record(record, queue_offset, log_offset, group, "Orders", 2, 1)


def test_anything_else_takes_the_long_way() -> None:
    good = text_of("PG", "Orders", 2)
    room = MAX_PROPERTIES_BYTES - len(text_of("PG", "Orders", 2, long="x")) + 1
    assert made_of(stored(good)) is not None
    others = [
        stored(good, topic="Orders"), stored(good, host=pack_host("[2001:db8::1]:1")),
        stored(good + "WAIT\x01true\x02"), stored(good).replace(b"paid", b"pale"),
        stored(good.removesuffix("\x02")), stored(text_of("PG", "Orders", 3)), stored(text_of("PG", "Other", 2)),
        stored(text_of("PG", "Orders", 2, TRANSACTION_CHECK_TIMES="1")), stored(text_of("XPG", "Orders", 2)),
        stored(text_of("PG", "Orders", 2, long="x" * (room - 5))),
    ]  # fmt: skip
    assert [made_of(record) for record in others] == [None] * len(others)
    assert made_of(stored(good), queue_offset=8) is None
    assert made_of(stored(good), log_offset=4712) is None
    assert made_of(stored(good), group="PGX") is None


@given(st.data())
def test_of_a_damaged_half_only_what_has_no_checksum_is_shown(data: st.DataObject) -> None:
    record = bytearray(stored(text_of("PG", "Orders", 2)))
    place = data.draw(st.integers(0, len(record) - 1))
    record[place] ^= data.draw(st.integers(1, 255))
    made = made_of(bytes(record[: data.draw(st.sampled_from([place, len(record)]))]))
    if made is not None:
        shown = decode_record(made)
        assert (shown.topic, shown.queue_id, shown.body) == ("Orders", 2, b"paid")
