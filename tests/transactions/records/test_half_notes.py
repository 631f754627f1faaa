"""Half notes: reading returns exactly what was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.transactions.records.half_notes import (
    HEAD_BYTES,
    Block,
    Note,
    can_be_noted,
    decode_block,
    encode_block,
    note_of,
    open_half,
    size_of,
)
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import NOT_NOTED, OpenHalf

NUMBERS = st.integers(0, 2**62)
TEXTS = st.text(max_size=40)
NOTES = st.builds(Note, NUMBERS, NUMBERS, NUMBERS, TEXTS, TEXTS, TEXTS, st.integers(0, 2**31 - 1), NUMBERS)


@given(NUMBERS, st.lists(NOTES, max_size=20))
def test_a_block_is_read_as_it_was_written(end: int, notes: list[Note]) -> None:
    data = encode_block(Block(end, notes))
    assert size_of(data[:HEAD_BYTES]) == len(data)
    assert decode_block(data) == Block(end, notes)


@given(st.lists(NOTES, max_size=5), st.data())
def test_a_damaged_or_torn_block_is_refused(notes: list[Note], data: st.DataObject) -> None:
    block = bytearray(encode_block(Block(7, notes)))
    place = data.draw(st.integers(0, len(block) - 1))
    with pytest.raises(RemoteProtocolError):
        decode_block(bytes(block[:place]))
    block[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RemoteProtocolError):
        decode_block(bytes(block))


def half(**changes: object) -> OpenHalf:
    made = OpenHalf(3, 900, "PG", "K", "Orders", 2, 1_795_000_000_000, 6000, State.OPEN)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_noted_half_comes_back_with_the_immunity_of_its_sender_or_of_the_broker_as_it_is_now() -> None:
    again = open_half(note_of(half()), 9000)
    assert (again.queue_offset, again.log_offset, again.group, again.unique_key) == (3, 900, "PG", "K")
    assert (again.real_topic, again.real_queue_id, again.stored_at) == ("Orders", 2, 1_795_000_000_000)
    assert (again.immunity_ms, again.state) == (9000, State.OPEN)
    asked = open_half(note_of(half(immunity_ms=30_000, own_immunity_ms=30_000)), 9000)
    assert (asked.immunity_ms, asked.own_immunity_ms) == (30_000, 30_000)


def test_what_a_note_cannot_say_is_not_noted() -> None:
    assert can_be_noted(half())
    assert can_be_noted(half(state=State.COMMITTING))
    assert not can_be_noted(half(state=State.STORING))
    assert not can_be_noted(half(copies=((8, 1000),)))
    assert not can_be_noted(half(own_immunity_ms=NOT_NOTED))
