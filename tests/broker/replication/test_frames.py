"""The bytes of the default HA protocol, as Apache's brokers send them, and however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.replication.frames import (
    MAX_TAKEN_BYTES,
    Frame,
    FrameReader,
    ReportReader,
    encode_frame,
    encode_report,
)
from gantrymq.errors import RemoteProtocolError

OFFSETS = st.integers(0, 1 << 50)


def test_the_bytes_are_those_that_were_seen_of_apaches_pair() -> None:
    """Reference "replication", section 1: a report of 171708, a frame of 7868 bytes, a heartbeat."""
    assert encode_report(171708) == bytes.fromhex("0000000000029ebc")
    assert encode_frame(163840, b"x" * 7868)[:12] == bytes.fromhex("0000000000028000 00001ebc")
    assert encode_frame(0, b"") == bytes(12)
    assert FrameReader().feed(bytes.fromhex("000000000002800000000003") + b"abc") == [Frame(163840, b"abc")]


@given(st.lists(st.tuples(OFFSETS, st.binary(max_size=60))), st.data())
def test_frames_come_out_however_they_are_cut(sent: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(place, piece) for place, piece in sent)
    reader, found = FrameReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == [Frame(*one) for one in sent]


@given(st.lists(OFFSETS), st.data())
def test_reports_come_out_however_they_are_cut(sent: list[int], data: st.DataObject) -> None:
    stream = b"".join(map(encode_report, sent))
    reader, found = ReportReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == sent


def test_what_is_no_frame_is_refused() -> None:
    for header in (b"HTTP/1.1 400 Bad", bytes(8) + (MAX_TAKEN_BYTES + 1).to_bytes(4, "big"), bytes(8) + b"\xff" * 4):
        with pytest.raises(RemoteProtocolError, match="not the HA port"):
            FrameReader().feed(header)
    with pytest.raises(RemoteProtocolError, match="none is negative"):
        ReportReader().feed(b"\xff" * 8)
