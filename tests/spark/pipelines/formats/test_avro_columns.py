"""Many bodies of Avro that are read at once have the events and the reasons that the loop gives them."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

pytest.importorskip("fastavro")

from gantrymq.spark.pipelines.formats.avro import AvroFormat
from gantrymq.spark.pipelines.formats.decoding import event_columns
from tests.spark.pipelines.formats.avro_by_chance import differences


def test_both_ways_decode_the_same() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    read = 0
    for one in range(seed, seed + 25):
        lines, without_loop = differences(one, 20)
        assert not lines, lines[0]
        read += without_loop
    assert read > 0


@pytest.mark.parametrize(
    ("bodies", "found"),
    [
        (pa.array([], pa.binary()), []),
        (pa.nulls(2, pa.binary()), [None, None]),
        (pa.array([b"\4", b"\6", None, b"\2"], pa.large_binary())[1:], [{"x": 3}, None, {"x": 1}]),
    ],
)
def test_arrays_of_every_shape(bodies: pa.Array, found: list[object]) -> None:
    """Empty, without a body, and with the large types that a session may have."""
    schema = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
    assert event_columns(AvroFormat.of(json.dumps(schema).encode()), bodies)[0].to_pylist() == found
