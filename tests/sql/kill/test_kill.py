"""The short version of ``python -m tests.sql.kill.run``: every step three times, on every database that is here;
and with ``--inbox``, every step of every kind of consumer once."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from gantrymq.build_info import build_info
from tests.sql.kill import consumer, points
from tests.sql.kill.databases import KINDS, missing
from tests.sql.kill.inbox_run import InboxRun
from tests.sql.kill.run import Run

pytestmark = [pytest.mark.kill, pytest.mark.slow]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_rows_and_messages_agree_wherever_a_process_dies(kind: str) -> None:
    if (reason := missing(kind)) is not None:
        pytest.skip(reason)
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    # Not tmp_path: its parents are closed to the users that databases run as.
    with tempfile.TemporaryDirectory(prefix="gantry-sql-kill-", ignore_cleanup_errors=True) as root:
        outcome = Run(kind, None, seed, Path(root), print).run(kills=3 * len(points.SERVICE), server_kills=2)
    assert outcome.violations == []
    assert outcome.paid > 0
    reached = {point for point, kills in outcome.kills.items() if kills}
    # The compiled waits call each other, and no hook can stand between them.
    absent = {"any_time", "halves_stored"} if build_info().compiled else {"any_time"}
    assert reached >= set(points.SERVICE) - absent, "a hook has nothing to hold on to any more"


@pytest.mark.parametrize(("kind", "away"), [("postgresql", "always")])
def test_messages_by_row_agree_wherever_a_process_dies(kind: str, away: str) -> None:
    """A process dies at every step in which rows are inserted or sent, once."""
    if (reason := missing(kind)) is not None:
        pytest.skip(reason)
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="gantry-sql-kill-", ignore_cleanup_errors=True) as root:
        outcome = Run(kind, None, seed, Path(root), print, away).run(kills=len(points.SERVICE_BY_ROW), server_kills=0)
    assert outcome.violations == []
    assert outcome.paid > 0 and outcome.by_row > 0
    reached = {point for point, kills in outcome.kills.items() if kills}
    assert "row_inserted" in reached, "a hook has nothing to hold on to any more"
    assert reached & set(points.DELIVERY), "a sibling may be faster at some of them, but not at all"


@pytest.mark.parametrize(("kind", "away"), [("postgresql", "refuse"), ("sqlite", "row")])
def test_messages_of_a_key_keep_their_order_wherever_a_process_dies(kind: str, away: str) -> None:
    if (reason := missing(kind)) is not None:
        pytest.skip(reason)
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="gantry-sql-kill-", ignore_cleanup_errors=True) as root:
        run = Run(kind, None, seed, Path(root), print, away, True)
        outcome = run.run(kills=2 * len(points.SERVICE_ORDERED), server_kills=2)
    assert outcome.violations == []
    assert outcome.ordered > 0
    reached = {point for point, kills in outcome.kills.items() if kills}
    assert reached & {"row_became", "commit_answered", "row_gone"}, "a hook has nothing to hold on to any more"


def test_an_effect_happens_once_wherever_its_consumer_dies() -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    kills = len(consumer.KINDS) * len(points.CONSUMER)
    with tempfile.TemporaryDirectory(prefix="gantry-sql-kill-", ignore_cleanup_errors=True) as root:
        outcome = InboxRun("postgresql", seed, Path(root), print).run(kills=kills, server_kills=0)
    assert outcome.violations == []
    wanted = {f"{kind} {point}" for kind in consumer.KINDS for point in points.CONSUMER}
    assert set(outcome.kills) == wanted
