"""When a batch is compared with the rows that others have put into a target, on real tables and without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.offsets import StreamOffset
from gantrymq.spark.pipelines.job import Events, Job, PostgresqlTarget
from gantrymq.spark.pipelines.run.backfill import backfill_name
from gantrymq.spark.pipelines.run.batches import Batches
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.rows_of_others import Always, Comparison, UntilPassed
from gantrymq.spark.pipelines.run.running import TableLost, _refuse_lost_tables
from gantrymq.spark.pipelines.targets.port import Columns
from gantrymq.spark.source.connections import OF_THIS_PROCESS
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer
from tests.spark.pipelines.staged import added
from tests.spark.pipelines.targets.test_targets import SCHEMA, delta, iceberg, parquet, rows
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

QUEUE = MessageQueue("orders", "broker-a", 0)
HORIZON_MS = 3_600_000


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(FakeBroker()) as running:
        running.broker.fill(QUEUE, 10)
        yield running
        OF_THIS_PROCESS.close()


class Runs:
    """Runs of a job, one after the other: each batch has the ids that it is given."""

    def __init__(self, where: Path, target: Any, name_servers: str = "h:1") -> None:
        source = {"nameServers": name_servers, "subscribe": "orders"}
        self.now_ms = 0
        self._offsets = where / "checkpoint" / "offsets"
        self._offsets.mkdir(parents=True)
        self.job = Job(
            name="orders", checkpoint=f"{where}/checkpoint", source=source, events=Events(key=("id",), horizon="1h"),
            targets={"t": target},
        )  # fmt: skip

    def run(
        self, query: str, *batches: tuple[int, int, str], amount: int = 1, look: Comparison | None = None
    ) -> list[str]:
        """(number, offset of its end, ids) of batches; returns the ids that the target got, and each time it was
        searched as ``?``."""
        columns = {"t": Columns(("id", "amount"), SCHEMA, rows().schema)}
        look = look or UntilPassed(self.job, OsDisk(), lambda: self.now_ms)
        running = Batches(self.job, columns, ProgressLines(None), OsDisk(), look)
        target, found = running.targets["t"], []
        search = target.known
        target.known = lambda *given: [found.append("?"), search(*given)][1]  # type: ignore[method-assign, func-returns-value]
        for number, end, ids in batches:
            offset = StreamOffset({QUEUE: end}, {QUEUE: 0}).to_json()
            (self._offsets / str(number)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
            new = running._new("t", query, number, rows(*ids, amount=amount))
            found += new["id"].to_pylist()
            added(target, query, number, new)
        running.close()
        return found


@pytest.mark.parametrize("kind", [parquet, delta, iceberg])
def test_a_restart_does_not_take_own_rows_for_those_of_others(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    """A key that comes again behind its horizon is a new event, before a restart and after it. And nothing is read."""
    runs = Runs(tmp_path, kind(tmp_path))
    assert runs.run("q", (0, 3, "ab")) == ["a", "b"]
    assert runs.run("q", (1, 5, "ac")) == ["a", "c"]


@pytest.mark.parametrize("kind", [parquet, delta, iceberg])
def test_rows_of_others_are_looked_for_until_their_messages_are_passed(
    kind: Callable[[Path], Any], tmp_path: Path, server: LogServer
) -> None:
    """The checkpoint was lost, and the topic ends at 10. Then one horizon goes by, also over restarts."""
    target = kind(tmp_path)
    runs = Runs(tmp_path, target, server.address)
    assert runs.run("lost", (0, 10, "abc")) == ["a", "b", "c"]
    assert runs.run("new", (0, 5, "ab"), (1, 10, "cd")) == ["?", "?", "d"]
    assert runs.run("new", (2, 12, "ae")) == ["?", "e"], "one horizon is not over"
    runs.now_ms = HORIZON_MS
    assert runs.run("new", (3, 14, "af")) == ["a", "f"]
    assert runs.run("backfill", (0, 0, "xa"), look=Always()) == ["?", "x"]
    server.broker.fill(QUEUE, 5)
    assert runs.run("new", (4, 15, "xg")) == ["?", "g"], "somebody else has written since"


@pytest.mark.parametrize("kind", [parquet, delta, iceberg])
def test_a_table_that_was_lost_behind_its_checkpoint_is_missed(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    """Also one that had no rows yet: each run makes the tables."""
    target = kind(tmp_path)
    runs = Runs(tmp_path, target)
    runs.run("q")
    (tmp_path / "checkpoint" / "commits").mkdir()
    (tmp_path / "checkpoint" / "commits" / "0").touch()
    _refuse_lost_tables(runs.job, OsDisk())
    for name in ("table", "lake", "catalog.db"):
        if (tmp_path / name).exists():
            (tmp_path / name).rename(tmp_path / f"moved {name}")
    with pytest.raises(TableLost, match=r"the table of the target t is not in .*\. Move it back"):
        _refuse_lost_tables(runs.job, OsDisk())


def test_a_database_that_was_made_anew_is_missed(tmp_path: Path, postgresql: Place) -> None:
    """And a target that goes to another table of the same database."""
    make = "CREATE TABLE orders (id text PRIMARY KEY, amount bigint)"
    postgresql.execute(make)
    runs = Runs(tmp_path, PostgresqlTarget(dsn=postgresql.dsn, table="orders", key=("id",)))
    runs.run("q")
    (tmp_path / "checkpoint" / "commits").mkdir()
    (tmp_path / "checkpoint" / "commits" / "0").touch()
    _refuse_lost_tables(runs.job, OsDisk())
    postgresql.execute("DROP TABLE orders", "DROP TABLE gantry_batches", make)
    with pytest.raises(TableLost, match=r"the table of the target t is not in orders\. Move it back"):
        _refuse_lost_tables(runs.job, OsDisk())


def test_a_backfill_does_not_change_an_event_that_postgresql_has(tmp_path: Path, postgresql: Place) -> None:
    """The first event of a key counts. In a table with another key the newest event of a row does."""
    postgresql.execute(
        "CREATE TABLE events (id text PRIMARY KEY, amount bigint)",
        "CREATE TABLE newest (id text, amount bigint PRIMARY KEY)",
    )
    events = Runs(tmp_path / "1", PostgresqlTarget(dsn=postgresql.dsn, table="events", key=("id",)))
    assert events.run("q", (0, 1, "a"), amount=1) == ["a"]
    assert events.run("backfill", (0, 0, "ba"), amount=2, look=Always()) == ["?", "b"]
    assert postgresql.execute("SELECT id, amount FROM events ORDER BY id") == [("a", 1), ("b", 2)]
    newest = Runs(tmp_path / "2", PostgresqlTarget(dsn=postgresql.dsn, table="newest", key=("amount",)))
    assert newest.run("backfill", (0, 0, "ab"), (1, 0, "a"), look=Always()) == ["?", "a", "b", "?", "a"]
    assert postgresql.execute("SELECT id, amount FROM newest") == [("a", 1)]


def test_a_job_that_was_corrected_backfills_its_range_anew(tmp_path: Path) -> None:
    job = Runs(tmp_path, parquet(tmp_path)).job
    name = backfill_name(job, 0, 10, 5)
    assert name == backfill_name(job, 0, 10, 5) and name.startswith("backfill-0-10-5-")
    corrected = Job(name=job.name, checkpoint="", source={**job.source, "subscribe": "payments"}, targets=job.targets)
    assert len({name, backfill_name(job, 0, 10, 2), backfill_name(corrected, 0, 10, 5)}) == 3
