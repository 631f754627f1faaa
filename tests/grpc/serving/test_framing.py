"""Messages in the data of a call, in whatever pieces it comes."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.grpc.serving import framing
from gantrymq.grpc.serving.framing import GZIP, HEAD, IDENTITY, MessageReader, framed
from gantrymq.grpc.serving.statuses import CallFailed, GrpcStatus, escaped, seconds_of


@given(st.lists(st.tuples(st.binary(max_size=50), st.booleans()), max_size=6), st.lists(st.integers(1, 20)))
def test_messages_come_whole_and_in_order(messages: list[tuple[bytes, bool]], sizes: list[int]) -> None:
    data = b""
    for message, compressed in messages:
        packed = gzip.compress(message) if compressed else message
        data += HEAD.pack(compressed, len(packed)) + packed
    reader, found = MessageReader(GZIP), list[bytes]()
    for size in [*sizes, len(data)]:
        piece, data = data[:size], data[size:]
        if piece:
            found += reader.feed(piece)
    assert found == [message for message, _ in messages]
    assert reader.size == 0


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_anything_is_cut_or_refused(pieces: list[bytes]) -> None:
    reader = MessageReader(GZIP)
    try:
        for piece in pieces:
            reader.feed(piece)
    except CallFailed:
        return
    assert reader.size <= sum(map(len, pieces))


def refusal(data: bytes, encoding: str = GZIP) -> GrpcStatus:
    with pytest.raises(CallFailed) as failed:
        MessageReader(encoding).feed(data)
    return failed.value.status


def test_what_is_too_large_is_refused_before_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(HEAD.pack(0, framing.LARGEST_MESSAGE_BYTES + 1)) is GrpcStatus.RESOURCE_EXHAUSTED
    monkeypatch.setattr(framing, "LARGEST_MESSAGE_BYTES", 1000)
    bomb = gzip.compress(b"\0" * 100_000)
    assert refusal(HEAD.pack(1, len(bomb)) + bomb) is GrpcStatus.RESOURCE_EXHAUSTED


def test_what_is_not_compressed_as_it_says_is_refused() -> None:
    packed = gzip.compress(b"message")
    assert refusal(HEAD.pack(1, len(packed)) + packed, IDENTITY) is GrpcStatus.INTERNAL
    assert refusal(HEAD.pack(1, 3) + b"xyz") is GrpcStatus.INTERNAL
    assert refusal(HEAD.pack(1, 12) + packed[:12]) is GrpcStatus.INTERNAL


def test_a_frame_of_this_side_is_read_again() -> None:
    assert MessageReader("").feed(framed(b"x") + framed(b"")) == [b"x", b""]


@pytest.mark.parametrize(
    ("timeout", "seconds"), [("1H", 3600), ("2M", 120), ("3S", 3), ("2500m", 2.5), ("10u", 1e-5), ("99999999n", 0.1)]
)  # fmt: skip
def test_how_long_a_client_waits(timeout: str, seconds: float) -> None:
    assert seconds_of(timeout) == pytest.approx(seconds)


@pytest.mark.parametrize("timeout", ["", "5", "S", "-1S", "123456789S", "1 S", "1s", "\u0661S"])
def test_a_timeout_that_is_none_is_refused(timeout: str) -> None:
    with pytest.raises(CallFailed, match="grpc-timeout"):
        seconds_of(timeout)


def test_an_explanation_may_have_any_letters() -> None:
    assert escaped("100 % of Zürich\n") == "100 %25 of Z%C3%BCrich%0A"
    assert len(escaped("x" * 5000)) == 1000
