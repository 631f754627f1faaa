"""Events of transactions as bytes, and finding them in what a crash left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.transactions.history.events import (
    BROKER,
    MAX_BYTES,
    EventKind,
    HistoryEvent,
    decode,
    encode,
    end_of_last,
    events_of,
    first_event,
    key_of,
)

FEW = settings(deadline=None, max_examples=60)
PEERS = st.one_of(
    st.just(""),
    st.builds("{}:{}".format, st.ip_addresses(v=4), st.integers(0, 65535)),
    st.builds("[{}]:{}".format, st.ip_addresses(v=6), st.integers(0, 65535)),
)
PLACES = st.tuples(st.integers(0, (1 << 48) - 1), st.integers(0, (1 << 63) - 1))
KEYS = st.one_of(st.just(BROKER), PLACES.map(lambda place: key_of(*place)))
EVENTS = st.builds(
    HistoryEvent, st.sampled_from(EventKind), st.integers(0, (1 << 48) - 1), KEYS, st.integers(0, 255),
    st.integers(0, 65535), PEERS, st.text(max_size=40),
)  # fmt: skip


@FEW
@given(EVENTS)
def test_an_event_comes_back_as_it_was(event: HistoryEvent) -> None:
    data = encode(event)
    assert len(data) == data[0] <= MAX_BYTES
    assert decode(data) == event


def test_a_check_takes_less_than_64_bytes() -> None:
    for peer in ("192.0.2.1:40001", "[2001:db8::1]:40001"):
        assert (
            len(encode(HistoryEvent(EventKind.CHECKED, 1_795_000_000_000, key_of(1 << 40, 1 << 50), 0, 15, peer))) <= 42
        )
    assert len(encode(HistoryEvent(EventKind.CHECKED, 1_795_000_000_000, key_of(7, 7), 0, 15, "192.0.2.1:1"))) == 30


def test_what_does_not_fit_is_cut() -> None:
    event = decode(
        encode(HistoryEvent(EventKind.RESUMED, 5, key_of(1, 1), number=70_000, peer="no address", text="ä" * 500))
    )
    assert event is not None
    assert (event.number, event.peer, event.text) == (65535, "", "ä" * 100)


@FEW
@given(st.lists(EVENTS, max_size=20), st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 40))
def test_events_are_found_between_anything(known: list[HistoryEvent], before: bytes, after: bytes, torn: int) -> None:
    """Foreign bytes before them, a torn event and foreign bytes behind: nothing is lost, nothing is made up."""
    last = encode(HistoryEvent(EventKind.STOPPED, 9, BROKER))
    data = before + b"".join(map(encode, known)) + last[: min(torn, len(last) - 4)] + after
    for key in {event.key for event in known} | {key_of(3, 3)}:
        assert list(events_of(key, data)) == [event for event in known if event.key == key]
    end, found = end_of_last(data)
    assert found == (known[-1] if known else None)
    assert end == (len(before) + sum(len(encode(event)) for event in known) if known else 0)
    assert first_event(data) == (known[0] if known else None)


@pytest.mark.slow
@FEW
@given(st.lists(EVENTS, min_size=1, max_size=20), st.integers(1, 100))
def test_pieces_that_overlap_tell_each_event_once(known: list[HistoryEvent], size: int) -> None:
    data = b"".join(map(encode, known))
    for key in {event.key for event in known}:
        found = [
            event
            for at in range(0, len(data), size)
            for event in events_of(key, data[at : at + size + MAX_BYTES], min(size, len(data) - at))
        ]
        assert found == [event for event in known if event.key == key]


@FEW
@given(st.lists(EVENTS, min_size=1, max_size=5), st.data())
def test_a_flipped_bit_hides_one_event_and_no_other(known: list[HistoryEvent], data: st.DataObject) -> None:
    parts = [bytearray(encode(event)) for event in known]
    number = data.draw(st.integers(0, len(parts) - 1))
    at = data.draw(st.integers(0, len(parts[number]) - 1))
    parts[number][at] ^= 1 << data.draw(st.integers(0, 7))
    whole = b"".join(map(bytes, parts))
    for event in {*known}:
        found = [other for other in events_of(event.key, whole)]
        assert [other for other in known[:number] + known[number + 1 :] if other.key == event.key] == found


def test_nothing_is_no_event() -> None:
    assert decode(b"") is None
    assert decode(bytes(100)) is None
    assert decode(encode(HistoryEvent(EventKind.STARTED, 1, BROKER)), -1) is None
    assert end_of_last(b"") == (0, None)
    assert first_event(b"") is None
