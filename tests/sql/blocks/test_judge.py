"""Every combination of facts has the verdict that the table of ``judge`` says."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.sql.blocks.judge import GOOD, Facts, Verdict, is_crash, judge

USUAL = Facts(
    row=True, delivered=1, inserted=True, sent=True, undone=False, committed="", raised=False, says_so=False
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.BOTH),
        ({"delivered": 2}, Verdict.DOUBLED),
        ({"delivered": 0, "open": True}, Verdict.STUCK),
        ({"answerable": False}, Verdict.LOST_IF_KILLED),
        ({"raised": True}, Verdict.TORN),
        ({"raised": True, "committed": "behind", "says_so": True}, Verdict.TORN),
        ({"raised": True, "committed": "own"}, Verdict.BOTH),
        ({"row": False}, Verdict.PHANTOM),
        ({"row": False, "undone": True}, Verdict.PHANTOM),
        ({"row": False, "inserted": False}, Verdict.HALVED),
        ({"row": False, "inserted": False, "raised": True}, Verdict.PHANTOM),
        ({"delivered": 0}, Verdict.LOST),
        ({"delivered": 0, "undone": True}, Verdict.LOST),
        ({"delivered": 0, "raised": True}, Verdict.LOST),
        ({"delivered": 0, "raised": True, "says_so": True}, Verdict.LOST),
        ({"delivered": 0, "raised": True, "says_so": True, "committed": "behind"}, Verdict.TOLD),
        ({"delivered": 0, "raised": True, "says_so": False, "committed": "behind"}, Verdict.LOST),
        ({"delivered": 0, "raised": False, "committed": "behind"}, Verdict.LOST),
        ({"delivered": 0, "raised": True, "committed": "program"}, Verdict.TOLD),
        ({"delivered": 0, "raised": False, "committed": "program"}, Verdict.LOST),
        ({"raised": True, "committed": "program"}, Verdict.TORN),
        ({"delivered": 0, "sent": False}, Verdict.HALVED),
        ({"delivered": 0, "sent": False, "raised": True}, Verdict.LOST),
        ({"delivered": 0, "transactional": False, "raised": True}, Verdict.LIMIT),
        ({"row": False, "delivered": 0}, Verdict.SILENT),
        ({"row": False, "delivered": 0, "raised": True}, Verdict.NEITHER),
        ({"row": False, "delivered": 0, "undone": True}, Verdict.NEITHER),
        ({"row": False, "delivered": 0, "warned": True}, Verdict.NEITHER),
        ({"row": False, "delivered": 0, "sent": False}, Verdict.SILENT),
        ({"row": None}, Verdict.BOTH),
        ({"row": None, "raised": True}, Verdict.TORN),
        ({"row": None, "delivered": 0}, Verdict.SILENT),
        ({"row": None, "delivered": 0, "sent": False}, Verdict.NEITHER),
    ],
)
def test_the_verdict_about_a_unit(changes: dict[str, object], verdict: Verdict) -> None:
    assert judge(replace(USUAL, **changes)) is verdict  # type: ignore[arg-type]


def test_nothing_is_right_unless_row_and_message_agree_or_somebody_was_told() -> None:
    flags = list(itertools.product((False, True), repeat=7))
    for row, delivered, committed in itertools.product((True, False), (0, 1), ("", "own", "behind", "program")):
        for inserted, sent, undone, raised, says_so, warned, answerable in flags:
            facts = Facts(
                row=row, delivered=delivered, inserted=inserted, sent=sent, undone=undone, committed=committed,
                raised=raised, says_so=says_so, warned=warned, answerable=answerable,
            )  # fmt: skip
            if judge(facts) not in GOOD:
                continue
            agree = row is bool(delivered)
            told = raised and (committed == "program" or (says_so and committed == "behind"))
            halved = (not inserted or not sent) and (not raised or committed == "own")
            assert agree or told or halved, facts
            if not row and not delivered:
                assert raised or undone or warned, facts


def test_errors_from_inside_are_defects_and_those_of_databases_are_not() -> None:
    assert is_crash(AttributeError("x")) and is_crash(RuntimeError("attached to a different loop"))
    assert not is_crash(ValueError("x")) and not is_crash(ConnectionError())
