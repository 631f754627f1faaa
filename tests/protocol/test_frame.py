from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.message.sizes import MAX_FRAME_BYTES
from gantrymq.protocol.frame import Frame, FrameSplitter, join_frame

FRAMES = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=40)), max_size=5)


def joined(frames: list[Frame]) -> bytes:
    return b"".join(join_frame(*frame) for frame in frames)


@given(FRAMES)
def test_frames_come_out_whole_wherever_the_stream_is_cut(frames: list[Frame]) -> None:
    stream = joined(frames)
    for cut in range(len(stream) + 1):
        splitter = FrameSplitter()
        assert splitter.feed(stream[:cut]) + splitter.feed(stream[cut:]) == frames
        assert splitter.pending_bytes == 0


@given(FRAMES)
def test_frames_come_out_of_single_bytes(frames: list[Frame]) -> None:
    splitter = FrameSplitter()
    got: list[Frame] = []
    for byte in joined(frames):
        got += splitter.feed(bytes((byte,)))
    assert got == frames


@given(FRAMES, st.data())
def test_frames_come_out_of_any_pieces(frames: list[Frame], data: st.DataObject) -> None:
    stream = joined(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter = FrameSplitter()
    got: list[Frame] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += splitter.feed(stream[start:stop])
    assert got == frames


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_split_or_raise_the_documented_error(pieces: list[bytes]) -> None:
    splitter = FrameSplitter()
    with contextlib.suppress(RemoteProtocolError):
        for piece in pieces:
            splitter.feed(piece)


def test_bytes_of_an_incomplete_frame_are_counted() -> None:
    splitter = FrameSplitter()
    frame = join_frame(0, b"{}", b"body")
    assert splitter.feed(frame + frame[:-1]) == [(0, b"{}", b"body")]
    assert splitter.pending_bytes == len(frame) - 1
    assert splitter.feed(frame[-1:]) == [(0, b"{}", b"body")]
    assert splitter.pending_bytes == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "does not speak"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "does not speak"),
        ((MAX_FRAME_BYTES + 1).to_bytes(4, "big") + bytes(4), f"at most {MAX_FRAME_BYTES}"),
        (b"\0\0\0\4\0\0\0\1", "header of 1 bytes"),
        (bytes(8), "header of 0 bytes"),
    ],
)
def test_an_impossible_length_is_refused_before_it_is_waited_for(data: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        FrameSplitter().feed(data)


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    frame = join_frame(0, b"", bytes(MAX_FRAME_BYTES - 4))
    splitter = FrameSplitter()
    assert splitter.feed(frame[:100]) == []
    ((_, _, body),) = splitter.feed(frame[100:])
    assert len(body) == MAX_FRAME_BYTES - 4
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        join_frame(0, b"", bytes(MAX_FRAME_BYTES - 3))
