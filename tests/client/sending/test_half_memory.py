"""Every row of the table in HalfMemory.verdict, and nothing else."""

from __future__ import annotations

from itertools import product

from gantrymq.client.sending.half_memory import HalfMemory, Verdict
from gantrymq.message.transaction import LocalTransactionState as State


def rows(
    running: bool, placed: bool, same_broker: bool, same_offset: bool, state: State, confirmed: bool
) -> set[Verdict]:
    """The answers of all rows that match, each row written down by itself."""
    decided = state is not State.UNKNOWN
    table = [
        (running, Verdict.UNKNOWN),
        (not running and not placed, Verdict.ROLLBACK),
        (not running and placed and not same_broker, Verdict.ROLLBACK),
        (not running and placed and same_broker and not same_offset and decided and confirmed, Verdict.ROLLBACK),
        (
            not running and placed and same_broker and decided and (same_offset or not confirmed),
            Verdict.COMMIT if state is State.COMMIT else Verdict.ROLLBACK,
        ),
        (not running and placed and same_broker and not decided, Verdict.ASK_LISTENER),
    ]
    return {verdict for matches, verdict in table if matches}


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
        answer = memory.verdict("id", "a" if same_broker else "b", 100 if same_offset else 200)
        assert {answer} == rows(running, placed, same_broker, same_offset, state, confirmed)


def test_what_nobody_remembers_is_the_listeners() -> None:
    memory = HalfMemory(2)
    assert memory.verdict("old", "a", 0) is Verdict.ASK_LISTENER
    for name in ("old", "b", "c"):
        memory.started(name)
    assert memory.verdict("old", "a", 0) is Verdict.ASK_LISTENER
    assert memory.verdict("b", "a", 0) is Verdict.UNKNOWN


def test_a_message_sent_again_is_a_new_transaction() -> None:
    memory = HalfMemory(2)
    memory.started("id")
    memory.placed("id", "a", 1)
    memory.ended("id", State.COMMIT)
    memory.confirmed("id")
    memory.started("id")
    assert memory.verdict("id", "a", 2) is Verdict.UNKNOWN
    memory.placed("id", "a", 2)
    memory.ended("id", State.UNKNOWN)
    assert memory.verdict("id", "a", 2) is Verdict.ASK_LISTENER
