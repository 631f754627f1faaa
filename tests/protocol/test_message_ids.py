from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import UniqueIds, log_offset_of, offset_message_id, parse_offset_message_id
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng


def ms(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


class SetClock(SystemClock):
    """The real clock, except that its wall time is set by hand."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def ids(clock: SetClock, *, address: bytes = b"\x7f\0\0\1", process_id: int = 0x12345) -> Callable[[], str]:
    return UniqueIds(SystemRng(seed=1), clock, address, process_id).next


@given(st.integers(0, 2**63 - 1))
def test_offset_ids_name_their_place(offset: int) -> None:
    for host in ("10.0.0.1:10911", "[2001:db8::1]:10911"):
        message_id = offset_message_id(pack_host(host), offset)
        assert parse_offset_message_id(message_id) == (host, offset)
        assert log_offset_of(message_id) == offset
        assert parse_offset_message_id(message_id.lower()) == (host, offset)
        assert len(message_id) == (32 if host[0] != "[" else 56)


@given(st.text(max_size=60) | st.from_regex(r"[0-9A-Fa-f ]{32}|[0-9A-F]{56}", fullmatch=True))
def test_any_text_is_an_offset_id_or_refused(text: str) -> None:
    try:
        host, offset = parse_offset_message_id(text)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError, match="not an offset message id"):
            log_offset_of(text)
        return
    assert log_offset_of(text) == offset
    assert offset_message_id(pack_host(host), offset) == text.upper()


@pytest.mark.parametrize("text", ["", "AB", "0A00000100002A9F00000000000004  ", "Z" * 32])
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="not an offset message id"):
        parse_offset_message_id(text)


def test_a_host_of_another_length_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        offset_message_id(b"123", 0)


def test_fields_of_a_unique_key() -> None:
    clock = SetClock(ms(2026, 11, 21, 1, 2, 3))
    key = bytes.fromhex(ids(clock)())
    assert key[:4] == b"\x7f\0\0\1"
    assert key[4:6] == b"\x23\x45"  # the low 16 bits of the process id
    assert int.from_bytes(key[10:14], "big") == clock.now_ms - ms(2026, 11, 1)
    assert int.from_bytes(key[14:], "big") == 0


def test_ids_are_hexadecimal_digits_of_fixed_length() -> None:
    clock = SetClock(ms(2026, 2, 28))
    assert len(ids(clock)()) == 32
    assert len(ids(clock, address=bytes(16))()) == 56
    assert ids(clock)() == ids(clock)().upper()
    with pytest.raises(LocalProtocolError):
        ids(clock, address=b"123")


@given(st.lists(st.integers(-5, 5), max_size=200))
def test_ids_stay_unique_when_the_clock_stands_still_or_jumps(steps: list[int]) -> None:
    clock = SetClock(ms(2026, 3, 1) + 3)
    make = ids(clock)
    made = []
    for step in steps:
        clock.now_ms += step
        made.append(make())
    assert len(set(made)) == len(made)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 300)), max_size=20))
def test_ids_hold_the_time_and_a_counter_that_only_grow(steps: list[tuple[int, int]]) -> None:
    start = ms(2026, 3, 1)
    clock = SetClock(start + 100)
    make = ids(clock)
    last = -1
    for step, count in steps:
        clock.now_ms += step
        for _ in range(count):
            last = max(last + 1, (clock.now_ms - start) << 16)
            assert int(make()[20:], 16) == last


def test_more_ids_than_the_counter_holds_within_one_millisecond() -> None:
    make = ids(SetClock(ms(2026, 3, 2)))
    assert len({make() for _ in range(70_000)}) == 70_000


@pytest.mark.parametrize(("before", "after"), [((2026, 12, 31), (2027, 1, 1)), ((2028, 2, 29), (2028, 3, 1))])
def test_a_new_month_starts_at_zero_with_new_random_bytes(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    clock = SetClock(ms(*before))
    make = ids(clock)
    old = make()
    clock.now_ms = ms(*after) + 1
    new = make()
    assert new[20:28] == "00000001"
    assert new[:12] == old[:12]
    assert new[12:20] != old[12:20]
