"""Decoding by column gives exactly what decoding message by message gives."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.message import flags
from gantrymq.protocol import stored_message
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.stored_message import pack_host, scan, to_view
from gantrymq.spark.columns import decode
from gantrymq.spark.columns.decode import Records, arrow_schema
from gantrymq.spark.columns.rows import SPARK_TYPES
from tests.golden.recorded import SCENARIOS, scenario
from tests.support.records import encode_record

ALL = tuple(SPARK_TYPES)


def one_by_one(data: bytes, broker_name: str) -> list[dict[str, Any]]:
    """The same columns by the other decoder, which knows nothing of arrays."""
    rows = []
    for stored in scan(data):
        view = to_view(stored, broker_name)
        rows.append(
            {
                "topic": view.topic,
                "broker_name": broker_name,
                "queue_id": stored.queue_id,
                "queue_offset": stored.queue_offset,
                "body": view.body,
                "tags": view.tags,
                "keys": view.properties.get("KEYS"),
                "message_id": view.message_id,
                "born_timestamp": stored.born_timestamp,
                "store_timestamp": stored.store_timestamp,
                "reconsume_times": stored.reconsume_times,
                "flag": stored.flag,
                "log_offset": stored.log_offset,
                "properties": view.properties,
            }
        )
    return rows


def by_column(data: bytes, topic: str, broker_name: str) -> list[dict[str, Any]]:
    batch = Records.scan(data).batch(ALL, topic, broker_name)
    assert batch.schema == arrow_schema(ALL)
    batch.validate(full=True)
    table = pa.Table.from_batches([batch])
    for name in ("born_timestamp", "store_timestamp"):
        millis = table[name].combine_chunks().view(pa.int64())
        assert all(value % 1000 == 0 for value in millis.to_pylist())
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, pa.array([value // 1000 for value in millis.to_pylist()]))
    return [{**row, "properties": dict(row["properties"])} for row in table.to_pylist()]


def test_every_pull_answer_ever_recorded() -> None:
    answers = 0
    for name in SCENARIOS:
        for recorded in scenario(name):
            if (
                recorded.is_response
                and recorded.asked in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
                and recorded.code == ResponseCode.SUCCESS
                and recorded.body
            ):
                topic = next(scan(recorded.body)).topic
                assert by_column(recorded.body, topic, "broker-a") == one_by_one(recorded.body, "broker-a")
                answers += 1
    assert answers > 50


longs = st.integers(0, 2**53)
ints = st.integers(-(2**31), 2**31 - 1)
hosts = st.sampled_from(["127.0.0.1:10911", "[2001:db8::7]:10911"])
names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "XTAGS", "TAGS2", "a", "ключ", ""])
values = st.text(st.characters(exclude_characters="\x02", codec="utf-8"), max_size=12)
property_texts = st.lists(st.tuples(names, st.sampled_from(["\x01", "", "\x01\x01"]), values), max_size=6).map(
    lambda items: "\x02".join(f"{name}{mark}{value}" for name, mark, value in items)
)


@st.composite
def records(draw: st.DrawFn, topic: str) -> bytes:
    body = draw(st.binary(max_size=40))
    compressed = draw(st.booleans())
    return encode_record(
        topic.encode(),
        zlib.compress(body) if compressed else body,
        (draw(property_texts) + draw(st.sampled_from(["", "\x02"]))).encode(),
        draw(st.integers(0, 2**31 - 1)),
        draw(longs),
        draw(longs),
        draw(st.integers(0, 10**13)),
        pack_host(draw(hosts)),
        draw(st.integers(0, 10**13)),
        pack_host(draw(hosts)),
        draw(ints),
        flags.COMPRESSED if compressed else 0,
        draw(ints),
        draw(longs),
    )


@pytest.mark.slow
@given(st.data(), st.sampled_from(["orders", "T" * 200]))
def test_any_records(data: st.DataObject, topic: str) -> None:
    """IPv4 and IPv6 hosts, short and long topics, compressed or not, with any properties, mixed in one answer."""
    raw = b"".join(data.draw(st.lists(records(topic), min_size=1, max_size=8)))
    assert by_column(raw, topic, "b") == one_by_one(raw, "b")


def test_nothing_gives_an_empty_batch() -> None:
    records_of_nothing = Records.scan(b"")
    assert len(records_of_nothing) == 0
    assert records_of_nothing.batch(ALL, "t", "b").num_rows == 0


RECORD = encode_record(b"orders", b"hello", b"TAGS\x01a", 0, 7, 0, 1, pack_host("1.2.3.4:5"), 2, pack_host("1.2.3.4:5"))


@given(st.integers(1, len(RECORD) - 1))
def test_a_cut_answer_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError):
        Records.scan(RECORD + RECORD[:length])


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise(garbage: bytes) -> None:
    try:
        Records.scan(garbage).batch(ALL, "t", "b")
    except RemoteProtocolError:
        return
    list(scan(garbage, check=False))


@given(st.integers(0, len(RECORD) - 1), st.integers(0, 255))
def test_a_changed_byte_never_leads_outside_the_record(position: int, value: int) -> None:
    changed = bytearray(RECORD * 2)
    changed[position] = value
    try:
        Records.scan(bytes(changed)).batch(ALL, "t", "b")
    except RemoteProtocolError:
        return
    assert len(list(scan(bytes(changed), check=False))) == 2


def test_text_that_is_not_utf8_is_shown_as_elsewhere() -> None:
    raw = encode_record(
        b"orders", b"x", b"TAGS\x01\xff\xfe\x02KEYS\x01k", 0, 0, 0, 1, pack_host("1.2.3.4:5"), 2, pack_host("1.2.3.4:5")
    )
    assert by_column(raw, "orders", "b") == one_by_one(raw, "b")


def test_a_selection_of_columns_in_its_own_order() -> None:
    batch = Records.scan(RECORD).batch(("body", "queue_offset"), "orders", "b")
    assert batch.to_pylist() == [{"body": b"hello", "queue_offset": 7}]
    assert stored_message.AT_BODY == 88


def test_compressed_bodies_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only they become Python objects; and batches with them are cut by their size, because they may become large."""
    monkeypatch.setattr(decode, "PIECE_BYTES", 100)
    bodies = [b"%03d" % number * (number % 7 + 1) for number in range(266)]
    raw = [
        encode_record(
            b"orders", zlib.compress(body) if number % 5 == 3 else body, b"", 0, number, 0, 1, pack_host("1.2.3.4:5"),
            2, pack_host("1.2.3.4:5"), 0, flags.COMPRESSED if number % 5 == 3 else 0,
        )
        for number, body in enumerate(bodies)
    ]  # fmt: skip
    pieces = list(Records.scan(b"".join(raw)).pieces(["body"]))
    assert len(pieces) > 4
    found = [row for piece in pieces for row in piece.batch(["body"], "t", "b").column(0).to_pylist()]
    assert found == bodies
    assert Records.scan(b"".join(raw)).batch(["body"], "t", "b").column(0).to_pylist() == bodies
    assert [len(piece) for piece in Records.scan(b"".join(raw)).pieces(["tags"])] == [266]
    plain = Records.scan(b"".join(raw[:3]) * 200)
    assert [len(piece) for piece in plain.pieces(["body"])] == [600]


@given(st.lists(st.tuples(st.sampled_from([91, 92, 130]), st.integers(1, 70)), max_size=12))
def test_the_starts_of_records_of_any_sizes(kinds: list[tuple[int, int]]) -> None:
    sizes = [size for size, count in kinds for _ in range(count)]
    data = b"".join(size.to_bytes(4, "big").ljust(size, b"x") for size in sizes)
    expected = [sum(sizes[:number]) for number in range(len(sizes))]
    assert decode.find_starts(data).tolist() == expected
    for wrong in (data[:-1], data + b"\0\0\0", data + b"\0" * 95):
        if wrong:
            with pytest.raises(RemoteProtocolError):
                decode.find_starts(wrong)
