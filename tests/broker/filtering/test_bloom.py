"""Places in Apache's bloom filter."""

from __future__ import annotations

import pytest

from gantrymq.broker.filtering.bloom import BITS, HASHES, bit_positions, murmur3


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("hello", 0xCBD8A7B341BD9B02), ("The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C)],
)
def test_known_hashes(text: str, value: int) -> None:
    assert murmur3(text.encode()) == value


def test_positions_are_within_the_filter() -> None:
    assert (HASHES, BITS) == (3, 112)
    for number in range(200):
        positions = bit_positions(f"group-{number}", "T")
        assert len(positions) == HASHES and all(0 <= place < BITS for place in positions)


def test_a_place_that_apaches_broker_wrote() -> None:
    """Out of the consumerFilter.json of a 5.5.0 broker."""
    assert bit_positions("CG", "T") == [0, 73, 34]
