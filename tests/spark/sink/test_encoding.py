"""Rows as the items of requests. The simple way, a Message for each row, says what is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.sending.ordering import by_hash
from gantrymq.errors import MessageIllegal
from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.batch import split_batch
from gantrymq.spark.sink.chunks import Chunk, Limits, chunks
from gantrymq.spark.sink.columns import SinkColumns
from gantrymq.spark.sink.encoding import Encoder

PREFIX = "A" * 40
MAP = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("body", pa.binary()), ("tags", pa.string()), ("keys", pa.list_(pa.string())),
        ("ordering_key", pa.string()), ("delay_ms", pa.int64()), ("properties", MAP), ("flag", pa.int32()),
    ]
)  # fmt: skip
COLUMNS = SinkColumns(topic=0, body=1, tags=2, keys=3, ordering_key=4, delay_ms=5, properties=6, flag=7)
LIMITS = Limits(3, 400)
QUEUES = {"T": 4, "U": 3}
Sent = tuple[str, int | None, int | None, int, bytes, dict[str, str]]
"""topic, queue, delay, flag, body, properties"""

WORD = st.text("abcXYZ09é漢", min_size=1, max_size=6)
NAMES = st.one_of(WORD, st.sampled_from(["TAGS", "UNIQ_KEY", "DELAY", "WAIT"]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from([None, "T", "U"]),
            "body": st.binary(min_size=1, max_size=40),
            "tags": st.one_of(st.none(), st.just(""), WORD),
            "keys": st.one_of(st.none(), st.lists(WORD, max_size=3)),
            "ordering_key": st.one_of(st.none(), WORD),
            "delay_ms": st.one_of(st.none(), st.integers(0, 5_000)),
            "properties": st.one_of(st.none(), st.dictionaries(NAMES, WORD, max_size=3).map(lambda d: list(d.items()))),
            "flag": st.one_of(st.none(), st.integers(-5, 1 << 30)),
        }
    ),
    min_size=1,
    max_size=12,
)


def expected(row: dict[str, Any], number: int) -> Sent:
    """What a row becomes."""
    topic = row["topic"] or "T"
    names = {name: value for name, value in row["properties"] or [] if name not in properties.RESERVED}
    message = Message(topic, row["body"], tags=row["tags"], keys=row["keys"], properties=names)
    values, queue = dict(message.properties), None
    if row["ordering_key"]:
        values[properties.SHARDING_KEY] = row["ordering_key"]
        queues = [MessageQueue(topic, "b", number) for number in range(QUEUES[topic])]
        queue = by_hash(queues, message, row["ordering_key"]).queue_id
    values[properties.UNIQ_KEY] = f"{PREFIX}{number:08X}"
    return topic, queue, row["delay_ms"] or None, row["flag"] or 0, row["body"], values


def found(chunk: Chunk) -> list[tuple[int, Sent]]:
    items = split_batch(chunk.body)
    delays = chunk.delays_ms or (None,) * len(items)
    return [
        (int(row), (chunk.topic, chunk.queue, delay, item.flag, item.body, properties.decode(item.properties_text)))
        for row, item, delay in zip(chunk.rows, items, delays, strict=True)
    ]


@given(ROWS, st.integers(0, 3))
def test_every_row_becomes_the_message_that_it_should_be(rows: list[dict[str, Any]], skip: int) -> None:
    """Also of a slice of an Arrow batch, and in several batches."""
    skip = min(skip, len(rows) - 1)
    whole = pa.RecordBatch.from_pylist([rows[0]] * skip + rows, schema=SCHEMA)
    encoder = Encoder(COLUMNS, "T", PREFIX, "", 0)
    sent: dict[int, Any] = {}
    for part in (whole.slice(skip, 2), whole.slice(skip + 2)):
        for chunk in chunks(encoder.items(part), "T", LIMITS, QUEUES.__getitem__):
            assert list(chunk.rows) == sorted(chunk.rows)
            sent.update(found(chunk))
    assert sent == {number: expected(row, number) for number, row in enumerate(rows)}


def test_bodies_alone_need_no_other_column() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["a", "漢"])], names=["body"])
    items = Encoder(SinkColumns(body=0), "T", PREFIX, "WAIT\x01true\x02", 0).items(batch)
    (chunk,) = chunks(items, "T", LIMITS, QUEUES.__getitem__)
    assert [item.body.decode() for item in split_batch(chunk.body)] == ["a", "漢"]
    assert split_batch(chunk.body)[1].properties_text == f"UNIQ_KEY\x01{PREFIX}00000001\x02WAIT\x01true\x02"


def test_a_request_has_neither_more_rows_nor_more_bytes_than_allowed() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"x" * 50] * 8 + [b"y" * 1000] + [b"z"] * 2)], names=["body"])
    items = Encoder(SinkColumns(body=0), "T", PREFIX, "", 0).items(batch)
    made = list(chunks(items, "T", LIMITS, QUEUES.__getitem__))
    assert [len(chunk.rows) for chunk in made] == [3, 3, 2, 1, 2]
    assert np.concatenate([chunk.rows for chunk in made]).tolist() == list(range(11))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"body": None}, "has no body"),
        ({"body": b""}, "empty body"),
        ({"body": b"x" * (4 * 1024 * 1024)}, "bytes of body"),
        ({"tags": "a\x01b"}, "in TAGS"),
        ({"keys": ["a\x02b"]}, "in KEYS"),
        ({"keys": ["a", None]}, "a null among its KEYS"),
        ({"properties": [("a", "b\x02")]}, "the column 'properties'"),
        ({"properties": [("a", "b" * 32_000)]}, "bytes of properties"),
        ({"delay_ms": -1}, "negative"),
        ({"topic": None}, "has no topic"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(row: dict[str, Any], reason: str) -> None:
    good = {"topic": "T", "body": b"x"}
    batch = pa.RecordBatch.from_pylist([good, {**good, **row}], schema=SCHEMA)
    with pytest.raises(MessageIllegal, match=reason) as raised:
        Encoder(COLUMNS, None, PREFIX, "", 7).items(batch)
    assert "partition 7" in str(raised.value)
