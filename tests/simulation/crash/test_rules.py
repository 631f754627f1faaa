"""Rules that say when something may be missing."""

from __future__ import annotations

from gantrymq.simulation.crash.ledger import COMMIT, Expected, Fact, Transaction, expected_at
from gantrymq.simulation.crash.rules import judge
from gantrymq.simulation.crash.scenario import LogPositions
from gantrymq.simulation.crash.view import HalfView, View


def rules(view: View, expected: Expected, *, sync: bool = True) -> list[str]:
    return [breach.rule for breach in judge(view, expected, LogPositions(start=view.start), sync=sync)]


def test_a_resumed_half_is_missed_as_long_as_the_log_holds_its_first_one() -> None:
    """Retention took the first half: then the second one may be gone, too."""
    expected = Expected(
        halves={(1, 500): Transaction("x", acknowledged="parked")}, resumed={"x"}, halves_asked={"x": 2}
    )
    assert rules(View(start=0, end=2000, differs_at=2000), expected) == ["acknowledged is there"]
    assert rules(View(start=1000, end=2000, differs_at=2000), expected) == []


def test_with_async_flush_what_was_acknowledged_may_be_missing_but_not_turned_round() -> None:
    facts = [Fact(1, "half", "x"), Fact(2, "half_stored", "x", (0, 100)), Fact(3, "end", "x", (0, 100), COMMIT),
             Fact(4, "ended", "x", (0, 100), COMMIT)]  # fmt: skip
    expected = expected_at(facts, 9)
    nothing = View()
    assert rules(nothing, expected) == ["acknowledged is there"] and rules(nothing, expected, sync=False) == []
    still_open = HalfView("x", (0, 100), in_table=True, known_as="open")
    rolled_back = HalfView("x", (0, 100), ops=["rolled back"], known_as="rolled back")
    assert rules(View(halves={(0, 100): still_open}), expected) == ["decided once"]
    assert rules(View(halves={(0, 100): still_open}), expected, sync=False) == []
    assert rules(View(halves={(0, 100): rolled_back}), expected, sync=False) == ["no decision of its own"]
    assert rules(View(halves={(0, 100): still_open}), expected_at(facts, 2)) == []
