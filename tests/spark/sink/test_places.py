from __future__ import annotations

import numpy as np
import pytest

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.transaction import HalfEnd
from gantrymq.protocol.halves import decode_ends, encode_places
from gantrymq.spark.sink.places import ENDS_IN_REQUEST, Piece, decode_piece, encode_piece, ends_of, stored_of

PREFIX = "B" * 40


def stored(broker: str, first: int, count: int, topic: str = "T"):  # type: ignore[no-untyped-def]
    rows = np.arange(first, first + count, dtype=np.uint32)
    return stored_of(topic, broker, rows, encode_places([(int(row), int(row) * 100) for row in rows]))


def test_the_ends_name_every_half_message() -> None:
    piece = Piece(PREFIX, (stored("a", 0, 2), stored("a", 2, 1), stored("b", 3, 1), stored("b", 4, 1, "U")))
    found = [
        (topic, broker, decode_ends(body), count)
        for topic, broker, body, count in ends_of(decode_piece(encode_piece(piece)))
    ]
    ends = [HalfEnd(row, row * 100, f"{PREFIX}{row:08X}") for row in range(5)]
    assert found == [("T", "a", ends[:3], 3), ("T", "b", ends[3:4], 1), ("U", "b", ends[4:], 1)]


def test_a_request_ends_a_limited_number() -> None:
    piece = Piece(PREFIX, tuple([stored("a", first, 400) for first in range(0, 2000, 400)]))
    assert [count for _, _, _, count in ends_of(piece)] == [800, 800, 400]
    assert ENDS_IN_REQUEST == 1_000


def test_an_answer_with_too_few_places_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="for 3 half messages"):
        stored_of("T", "a", np.arange(3, dtype=np.uint32), bytes(32))


def test_what_is_no_piece_is_refused() -> None:
    for body in (b"x", b""):
        with pytest.raises(RemoteProtocolError, match="cannot be read"):
            decode_piece(body)
