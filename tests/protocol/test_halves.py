from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.transaction import HalfEnd
from gantrymq.protocol.halves import decode_codes, decode_ends, decode_places, encode_codes, encode_ends, encode_places

LONG = st.integers(-(2**63), 2**63 - 1)
ALIKE = st.text(st.characters(max_codepoint=127), min_size=3, max_size=3)
"""Keys of one length are read together."""
ENDS = st.one_of([st.lists(st.builds(HalfEnd, LONG, LONG, keys), max_size=5) for keys in (st.text(max_size=40), ALIKE)])


@given(ENDS)
def test_ends_are_read_as_they_were_written(ends: list[HalfEnd]) -> None:
    assert decode_ends(encode_ends(ends)) == ends
    assert decode_ends(encode_ends(ends), 2) == ends[:2]


@given(ENDS, st.data())
def test_a_cut_list_of_ends_is_refused_or_is_a_shorter_list(ends: list[HalfEnd], data: st.DataObject) -> None:
    whole = encode_ends(ends)
    length = data.draw(st.integers(0, len(whole)))
    try:
        found = decode_ends(whole[:length])
    except RemoteProtocolError:
        return
    assert found == ends[: len(found)]


def test_a_key_that_is_not_text_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        decode_ends(bytes(16) + b"\x00\x01\xff")
    cut = [bytes(16) + b"\x00\x01\xc3", bytes(16) + b"\x00\x01\xa9"]
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        decode_ends(b"".join(cut))


@given(st.lists(st.tuples(LONG, LONG), max_size=5))
def test_places_are_read_as_they_were_written(places: list[tuple[int, int]]) -> None:
    assert decode_places(encode_places(places)) == places


@given(st.lists(st.integers(0, 2**16 - 1)))
def test_codes_are_read_as_they_were_written(codes: list[int]) -> None:
    assert list(decode_codes(encode_codes(codes))) == codes


def test_lists_of_another_length_are_refused() -> None:
    for decode, body in ((decode_places, bytes(17)), (decode_codes, bytes(3))):
        with pytest.raises(RemoteProtocolError, match="are no list"):
            decode(body)
