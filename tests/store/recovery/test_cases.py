"""The table that says what a start found."""

from __future__ import annotations

import itertools

import pytest

from gantrymq.errors import InvariantViolated
from gantrymq.store.recovery.cases import CASES, Case, Facts, decide

NAMES = ("has_log", "has_queues", "clean", "has_mark", "has_checkpoint")


def test_exactly_one_row_holds_for_any_facts() -> None:
    found = set()
    for values in itertools.product([False, True], repeat=len(NAMES)):
        facts = Facts(*values)
        rows = [case for row, case in CASES if all(getattr(facts, name) == value for name, value in row.items())]
        assert rows == [decide(facts)]
        found.add(rows[0])
    assert found == set(Case)


def test_facts_without_a_case_stop_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gantrymq.store.recovery.cases.CASES", CASES[:1])
    with pytest.raises(InvariantViolated, match="0 recovery cases"):
        decide(Facts(True, True, True, True, True))
