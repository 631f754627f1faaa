"""Many bodies of Avro that are read at once have the events and the reasons that the loop gives them."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("fastavro")

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
