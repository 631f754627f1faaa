"""How many checks a group has to answer at once."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq.broker.transactions.check_turns import CheckTurns
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Decision, DecisionLog
from gantrymq.transactions.table.open_half import OpenHalf
from gantrymq.transactions.table.open_halves import TransactionTable
from tests.broker.transaction_lab import LabClient, LabProducers

LIMIT = 2


@pytest.fixture
def table() -> TransactionTable:
    table = TransactionTable(DecisionLog())
    for offset in range(6):
        table.add(OpenHalf(offset, 100 * offset, "PG", f"K{offset}", "T", 0, 0, 6_000, State.OPEN))
    return table


@pytest.fixture
def turns(table: TransactionTable) -> CheckTurns:
    producers: Any = LabProducers()
    producers.groups["PG"] = [LabClient()]
    return CheckTurns(table, producers, LIMIT)


def ask_all(turns: CheckTurns, table: TransactionTable) -> list[int]:
    """Asks about each half that may be asked about; the others wait. The offsets of those that were asked about."""
    asked = []
    for half in table:
        if turns.is_crowded(half):
            turns.wait(half)
        else:
            turns.take(half)
            asked.append(half.queue_offset)
    return asked


def test_a_group_gets_as_many_checks_as_its_members_can_keep(turns: CheckTurns, table: TransactionTable) -> None:
    assert ask_all(turns, table) == [0, 1]


def test_a_half_that_has_a_turn_may_be_asked_about_again(turns: CheckTurns, table: TransactionTable) -> None:
    ask_all(turns, table)
    assert [half.queue_offset for half in table if not turns.is_crowded(half)] == [0, 1]


def test_the_turn_goes_to_the_half_that_has_waited_longest_and_is_still_open(
    turns: CheckTurns, table: TransactionTable
) -> None:
    ask_all(turns, table)
    first, second, third = (table.get(offset) for offset in (0, 1, 2))
    assert first is not None and second is not None and third is not None
    table.end(third, Decision.COMMITTED)
    assert turns.give_back(first) is table.get(3)
    assert turns.give_back(first) is None, "it has none any more"
    assert turns.give_back(second) is table.get(4)


def test_when_nobody_waits_there_is_room_again(turns: CheckTurns, table: TransactionTable) -> None:
    ask_all(turns, table)
    following = table.get(0)
    given_back = 0
    while following is not None or (following := next((half for half in table if half.has_turn), None)) is not None:
        following, given_back = turns.give_back(following), given_back + 1
    assert given_back == 6
    assert not any(turns.is_crowded(half) for half in table)
