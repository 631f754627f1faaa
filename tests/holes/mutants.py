"""Fixes taken out of our broker, where several tests need the same: the real code with one piece gone."""

from __future__ import annotations

import pytest

from gantrymq.message.transaction import Resolution
from gantrymq.transactions import resolve
from gantrymq.transactions.decisions import Decision
from gantrymq.transactions.resolve import Standing, Verdict
from gantrymq.transactions.states import State
from gantrymq.transactions.table import OpenHalf, TransactionTable
from tests.holes.case import Mutant


def _forget_decisions(patch: pytest.MonkeyPatch) -> None:
    def end(table: TransactionTable, half: OpenHalf, decision: Decision) -> None:
        half.state = State.OPEN

    patch.setattr(TransactionTable, "end", end)


NO_MEMORY = Mutant("the memory of decisions", _forget_decisions)
"""A half that ended stays open, as if nobody had decided: what END_TRANSACTION is on Apache's brokers."""


def other_verdict(standing: Standing, resolution: Resolution, verdict: Verdict, name: str) -> Mutant:
    """The decision table with another verdict for members of the right group."""

    def change(patch: pytest.MonkeyPatch) -> None:
        for topic_exists in (False, True):
            patch.setitem(resolve.RULES.verdicts, (standing, True, True, resolution, topic_exists), verdict)

    return Mutant(name, change)
