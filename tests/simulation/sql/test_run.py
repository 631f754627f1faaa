"""gantrymq.sql by seeds: rows and messages agree, whatever becomes of services, brokers and databases.

More with ``gantry simulate --sql --seeds 0..10000 --jobs 2``.
"""

from __future__ import annotations

import json

import pytest

from gantrymq.simulation.judging.checker import COMMITTED, ROLLED_BACK
from gantrymq.simulation.run import Plan, Result
from gantrymq.simulation.sql import run as sql_simulation
from gantrymq.simulation.sql.run import AWAY
from gantrymq.sql.transaction import relay
from tests.simulation.mutations.run import MUTATIONS, find
from tests.simulation.test_run import gantry

pytestmark = pytest.mark.pure("the simulation of local transactions puts itself between a producer and its ends")
HAPPENED = {
    "answer of a database lost", "checker with the wrong database", "clock of a service stepped",
    "clock of the database stepped", "clock stepped", "connection broken", "connection parted", "database crashed",
    "database failed over", "frame lost", "host of a service vanished in a local transaction",
    "local transaction claimed by a check", "local transaction committed", "local transaction ended by Undo",
    "old rows cleaned", "power cut", "process killed", "savepoint rolled back", "service killed in a local transaction",
}  # fmt: skip
SHOWN_SOON = {
    "sql: halves end before the commit": 0,
    'sql: an error is read as "not there"': 25,
    "sql: the commit does not wait for its halves": 0,
    "sql: messages of a savepoint are not dropped": 0,
    "sql: the outcome row is committed on its own": 0,
    "sql by row: a half of a message by row is committed": 0,
    "sql by row: rows are sent before the commit": 3,
    "sql by row: a relay sends what another one has taken": 2,
    "sql by row: row_limit is ignored": 88,
    "sql order: a row is deleted before its COMMIT is answered": 77,
    "sql order: a relay takes not only heads": 0,
    "sql order: queues are chosen in turn": 0,
}
"""Mutations that SEEDS seeds show, and the first of these seeds."""
SEEDS = 20


def rows(result: Result, state: str) -> set[str]:
    return {event["tx"] for event in result.events if event["event"] == "row" and event["state"] == state}


def delivered(result: Result) -> set[str]:
    return {event["tx"] for event in result.events if event["event"] == "delivered"}


@pytest.mark.slow
def test_rows_and_messages_agree() -> None:
    done = gantry("--sql", "--seeds", "4000..4016", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["seeds"] == 16 and figures["failed"] == []
    assert set(figures["faults"]) >= HAPPENED, "every kind of fault was met"


@pytest.mark.parametrize("away", ["row", "always"])
def test_rows_and_messages_agree_while_brokers_are_away(away: str) -> None:
    results = [sql_simulation.run(seed, sql_simulation.AWAY, away=away) for seed in range(4100, 4104)]
    for result in results:
        assert result.good, [result.seed, *map(str, result.violations), *result.errors]
    for fault in ("all brokers away", "row put into the outbox", "row of the outbox sent"):
        assert any(result.injected[fault] for result in results), fault


@pytest.mark.parametrize("away", ["refuse", "row", "always"])
def test_messages_of_a_key_are_visible_in_the_order_of_the_commits(away: str) -> None:
    results = [sql_simulation.run(seed, sql_simulation.AWAY, away=away, ordered=True) for seed in range(4200, 4204)]
    for result in results:
        assert result.good, [result.seed, *map(str, result.violations), *result.errors]
    keyed = {event["tx"] for result in results for event in result.events if "order_key" in event}
    assert len(keyed & set().union(*map(delivered, results))) > 10


def test_the_same_seed_gives_the_same_history() -> None:
    plan = Plan(orders=15, faults=sql_simulation.SQL_FAULTS, fault_count=4)
    assert sql_simulation.run(5, plan).events == sql_simulation.run(5, plan).events


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_relays_that_hold_the_same_rows_send_each_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "TAKEN_MS", 0)  # rows change hands while somebody is sending them
    result = sql_simulation.run(seed, AWAY, away="always")
    assert result.good, [*map(str, result.violations), *result.errors]
    assert result.injected["row of the outbox sent"] > 0


def test_without_faults_what_is_committed_is_delivered_and_nothing_else() -> None:
    result = sql_simulation.run(7, Plan(orders=30, fault_count=0))
    assert result.good, [*map(str, result.violations), *result.errors]
    assert delivered(result) == rows(result, COMMITTED) and len(delivered(result)) > 10
    assert not rows(result, ROLLED_BACK) & delivered(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN_SOON)
def test_broken_local_transactions_are_found(name: str) -> None:
    (mutation,) = [mutation for mutation in MUTATIONS if mutation.name == name]
    first = SHOWN_SOON[name]
    assert find(mutation, range(first, first + SEEDS)) is not None


@pytest.mark.slow
def test_away_belongs_to_sql() -> None:
    done = gantry("--away", "row", "--seed", "1")
    assert done.returncode == 2 and "--away belongs to --sql" in done.stderr


@pytest.mark.slow
def test_two_kinds_of_runs_at_once_are_refused() -> None:
    done = gantry("--sql", "--groups", "--seed", "1")
    assert done.returncode == 2 and "give only one of" in done.stderr
