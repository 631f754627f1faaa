"""The rules of both sides of a connection: what counts, what is compared, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.replication.copies import Copies
from gantrymq.broker.replication.following import Differs, Following, NotThere, State, earlier
from gantrymq.broker.replication.frames import Frame
from gantrymq.broker.replication.sending import Sending
from gantrymq.errors import RemoteProtocolError
from gantrymq.message.send_status import SendStatus


def test_the_first_report_says_where_to_begin_and_confirms_nothing() -> None:
    sending = Sending()
    sending.reported(700, 0, 1000)
    assert (sending.next_place, sending.confirmed) == (700, 0)
    empty = Sending()
    empty.reported(0, 400, 1000)
    assert empty.next_place == 400, "an empty replica gets everything that is here"


def test_a_replica_with_records_that_are_not_here_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="records that are not here"):
        Sending().reported(1001, 0, 1000)
    with pytest.raises(RemoteProtocolError, match="was deleted"):
        Sending().reported(399, 400, 1000)


@given(
    st.lists(st.one_of(st.integers(0, 400).map(lambda n: ("sent", n)), st.integers(0, 1500).map(lambda n: ("r", n))))
)
def test_a_report_never_counts_beyond_what_was_sent(steps: list[tuple[str, int]]) -> None:
    """Hole 1 and 2 of the reference: eight forged bytes made Apache's primary say SEND_OK for everything."""
    sending = Sending()
    sending.reported(100, 0, 1000)
    for kind, number in steps:
        if kind == "sent":
            sending.sent(number)
            continue
        before = sending.confirmed
        try:
            sending.reported(number, 0, 1 << 40)
        except RemoteProtocolError:
            assert number > sending.next_place
            return
        assert before <= sending.confirmed <= sending.next_place
        assert sending.confirmed == max(before, number)


OWN = bytes(range(100))


def own(frame: Frame) -> bytes:
    return OWN[frame.place : frame.place + len(frame.data)]


@given(st.integers(0, 99), st.integers(1, 60), st.lists(st.integers(1, 40), min_size=1))
def test_only_what_lies_behind_equal_bytes_is_taken(begin: int, more: int, sizes: list[int]) -> None:
    log = OWN + bytes(more)
    following = Following(begin, min(begin + 10, len(OWN)), len(OWN))
    taken, at = b"", begin
    for size in sizes:
        frame = Frame(at, log[at : at + size])
        taken += following.takes(frame, own(frame))
        at += len(frame.data)
    assert taken == log[len(OWN) : max(at, len(OWN))]
    assert following.state is (State.FOLLOWING if at >= len(OWN) else State.COMPARING)


@given(st.integers(0, 99), st.integers(0, 99))
def test_one_different_byte_stops_it(begin: int, wrong: int) -> None:
    log = bytearray(OWN + b"new")
    log[wrong] ^= 1
    following = Following(begin, min(begin + 10, len(OWN)), len(OWN))
    frame = Frame(begin, bytes(log[begin:]))
    if wrong < begin:
        assert following.takes(frame, own(frame)) == b"new"
        return
    if wrong < begin + 10:
        with pytest.raises(NotThere, match=f"at log offset {begin}"):
            following.takes(frame, own(frame))
        return
    with pytest.raises(Differs) as raised:
        following.takes(frame, own(frame))
    assert raised.value.place == wrong


@given(st.integers(0, 99), st.integers(1, 99))
def test_a_primary_whose_log_ends_earlier_is_noticed_by_its_sign_of_life(begin: int, sent: int) -> None:
    following = Following(begin, min(begin + 10, len(OWN)), len(OWN))
    data = OWN[begin : begin + sent]
    assert following.takes(Frame(begin, data), data) == b""
    end = begin + len(data)
    if end == len(OWN):
        assert following.takes(Frame(end, b""), b"") == b""
        assert following.state is State.FOLLOWING
        return
    with pytest.raises(NotThere if end < min(begin + 10, len(OWN)) else Differs):
        following.takes(Frame(end, b""), b"")


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40))
def test_the_search_for_a_common_record_reaches_the_beginning_of_the_log_soon(start: int, size: int) -> None:
    end = start + size
    begin, steps = end - 1, 0
    while (before := earlier(begin, end, start)) is not None:
        assert start <= before < begin
        begin, steps = before, steps + 1
    assert begin == start and steps <= 10


def test_bytes_for_another_place_are_refused() -> None:
    following = Following(100, 100, 100)
    assert following.takes(Frame(7, b""), b"") == b"", "a sign of life says nothing about a place"
    with pytest.raises(RemoteProtocolError, match="100 is next"):
        following.takes(Frame(101, b"x"), b"")


def test_an_empty_log_begins_where_the_primarys_does() -> None:
    following = Following(0, 0, 0)
    assert following.takes(Frame(4096, b"abc"), b"") == b"abc"
    with pytest.raises(RemoteProtocolError):
        following.takes(Frame(9000, b"abc"), b"")


def test_so_many_machines_must_have_it_and_each_counts_once() -> None:
    copies = Copies(2, 3000)
    heard: list[int] = []
    copies.follow(lambda: heard.append(copies.position))
    copies.confirm("a", 100)
    copies.confirm("a", 200)
    assert copies.position == 0 and not copies.available
    copies.confirm("b", 150)
    assert copies.position == 150 and copies.available and heard[-1] == 150
    copies.confirm("c", 120)
    assert copies.position == 150, "what was confirmed stays so"
    copies.left("a")
    assert copies.position == 150 and copies.available
    copies.left("b")
    assert not copies.available and copies.absent is SendStatus.SLAVE_NOT_AVAILABLE
    copies.truncated(90)
    assert copies.position == 90
