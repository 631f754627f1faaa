"""HalfMemory.answer gives the answer in its table for every combination."""

from __future__ import annotations

from itertools import product

from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.message.transaction import LocalTransactionState as State


def rows(
    running: bool, placed: bool, same_broker: bool, same_offset: bool, state: State, confirmed: bool
) -> set[State | None]:
    """The answers of all rows that match, each row written down by itself."""
    decided = state is not State.UNKNOWN
    table: list[tuple[bool, State | None]] = [
        (running, State.UNKNOWN),
        (not running and not placed, State.ROLLBACK),
        (not running and placed and not same_broker, State.ROLLBACK),
        (not running and placed and same_broker and not same_offset and decided and confirmed, State.ROLLBACK),
        (
            not running and placed and same_broker and decided and (same_offset or not confirmed),
            State.COMMIT if state is State.COMMIT else State.ROLLBACK,
        ),
        (not running and placed and same_broker and not decided, None),
    ]
    return {answer for matches, answer in table if matches}


def test_every_combination_of_facts_matches_one_row() -> None:
    flags = [False, True]
    for running, placed, same_broker, same_offset, state, confirmed in product(
        flags, flags, flags, flags, State, flags
    ):
        memory = HalfMemory(10)
        memory.started("id")
        if placed:
            memory.placed("id", "a", 100)
        if not running:
            memory.ended("id", state)
        if confirmed:
            memory.confirmed("id")
        answer = memory.answer("id", "a" if same_broker else "b", 100 if same_offset else 200)
        assert {answer} == rows(running, placed, same_broker, same_offset, state, confirmed)


def test_what_nobody_remembers_is_the_listeners() -> None:
    memory = HalfMemory(2)
    assert memory.answer("old", "a", 0) is None
    for name in ("old", "b", "c"):
        memory.started(name)
    assert memory.answer("old", "a", 0) is None
    assert memory.answer("b", "a", 0) is State.UNKNOWN


def test_a_message_sent_again_is_a_new_transaction() -> None:
    memory = HalfMemory(2)
    memory.started("id")
    memory.placed("id", "a", 1)
    memory.ended("id", State.COMMIT)
    memory.confirmed("id")
    memory.started("id")
    assert memory.answer("id", "a", 2) is State.UNKNOWN
    memory.placed("id", "a", 2)
    memory.ended("id", State.UNKNOWN)
    assert memory.answer("id", "a", 2) is None
