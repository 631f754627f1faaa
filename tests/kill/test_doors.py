"""Four kills of a broker and of a proxy; the long run is ``python -m tests.kill.doors --runs 25``."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from gantrymq.simulation.judging.checker import check
from tests.kill.doors.ledger import Ledger
from tests.kill.doors.rounds import run


@pytest.mark.kill
def test_nothing_is_lost_invented_or_decided_twice_when_broker_and_proxy_are_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"repeat with: python -m tests.kill.doors --runs 1 --kills 4 --seed {seed}")
    outcome = asyncio.run(run(tmp_path, 4, seed, say=print))
    assert outcome.violations == []
    assert outcome.missing == []
    assert outcome.transactions > 50 and outcome.plain > 50
    assert outcome.checks > 0


def broken(ledger: Ledger) -> set[str]:
    ledger.history.add("quiet")
    return {violation.rule for violation in check(ledger.events)}


def test_the_judge_sees_what_was_lost_invented_and_decided_twice() -> None:
    ledger = Ledger()
    ledger.group("g")
    lost, invented, doubled, plain = (ledger.new(transaction=transaction) for transaction in (True, True, True, False))
    ledger.end_row(lost, "committed")
    ledger.ended(lost, "COMMIT")
    ledger.end_row(invented, "rolled back")
    ledger.delivered(invented.name, "b", 0, 1)
    ledger.end_row(doubled, "committed")
    ledger.asks_for(doubled, "COMMIT")
    ledger.ended(doubled, "COMMIT")
    ledger.ended(doubled, "ROLLBACK")
    ledger.delivered(doubled.name, "b", 0, 2)
    ledger.delivered(doubled.name, "b", 0, 3)
    ledger.plain(plain, confirmed=True)
    assert broken(ledger) >= {
        "nothing lost", "row means message", "no phantom", "no delivery without row", "one decision",
        "one final message", "at least once",
    }  # fmt: skip
    assert set(ledger.missing()) == {lost.name, doubled.name, plain.name}
