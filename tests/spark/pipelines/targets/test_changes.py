"""Every kind of target that applies changes: by key, in the order of the events, and each batch once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.pipelines.changes.applying import Applying
from gantrymq.spark.pipelines.changes.rows import CHANGE
from gantrymq.spark.pipelines.job import Changes, DeltaTarget, IcebergTarget, PostgresqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.port import Columns, Writer
from gantrymq.spark.pipelines.targets.staging import TargetAway, described
from gantrymq.spark.pipelines.targets.writers import open_change_writer
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.int32()), ("version", pa.int64()), ("note", pa.string())])
KEY = ("id", "part")
HORIZON_MS = 60_000
CREATE = "CREATE TABLE notes (id text, part int, version bigint, note varchar(5) NOT NULL, PRIMARY KEY (id, part))"


def batch(*lines: tuple[str, int, int, str | None]) -> pa.Table:
    """A row without a note goes."""
    columns = [pa.array(values, field.type) for values, field in zip(zip(*lines, strict=True), SCHEMA, strict=True)]
    changes = ["delete" if line[3] is None else "upsert" for line in lines]
    return pa.table(columns, schema=SCHEMA).append_column(CHANGE, pa.array(changes))


class Clock:
    """The time of a job."""

    now_ms = 1_000_000


def delta(where: Path, request: Any) -> Any:
    pytest.importorskip("deltalake")
    return DeltaTarget(path=f"{where}/table")


def iceberg(where: Path, request: Any) -> Any:
    pytest.importorskip("pyiceberg")
    catalog = {"type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"file://{where}/lake"}
    return IcebergTarget(table="shop.notes", catalog=catalog)


def in_postgresql(where: Path, request: Any) -> Any:
    place: Place = request.getfixturevalue("postgresql")
    place.execute(CREATE)
    return PostgresqlTarget(dsn=place.dsn, table="notes", key=KEY)


KINDS = pytest.mark.parametrize("kind", [delta, iceberg, in_postgresql])


def opened(target: Any, clock: Clock, databases: Databases | None = None, name: str = "t") -> Writer:
    changes = Changes(key=KEY, order_by=("version",), operation="op", horizon=f"{HORIZON_MS}ms")
    columns = Columns(tuple(SCHEMA.names), "", SCHEMA)
    applying = Applying.of(changes, lambda: clock.now_ms, "")
    return open_change_writer(target, name, columns, applying, databases or Databases())


def applied(writer: Writer, query: str, number: int, rows: pa.Table) -> int:
    staged = [described(rows)]
    assert writer.accepts(query, number, staged)
    return writer.commit(query, number, staged)


def rows_of(target: Any) -> list[tuple[Any, ...]]:
    """All rows of the table."""
    if isinstance(target, PostgresqlTarget):
        import psycopg

        with psycopg.connect(target.dsn) as connection:
            return sorted(connection.execute("SELECT id, part, version, note FROM notes").fetchall())
    if isinstance(target, DeltaTarget):
        from deltalake import DeltaTable

        table = DeltaTable(target.path).to_pyarrow_table()
    else:
        from pyiceberg.catalog import load_catalog

        table = load_catalog("gantry", **target.catalog).load_table(target.table).scan().to_arrow()
    return sorted(zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True))


@KINDS
def test_the_last_event_of_a_key_counts(kind: Any, tmp_path: Path, request: Any) -> None:
    target, clock = kind(tmp_path, request), Clock()
    writer = opened(target, clock)
    first = batch(("a", 1, 5, "five"), ("a", 2, 5, "five"), ("b", 1, 5, "five"), ("c", 1, 7, None))
    assert applied(writer, "q", 0, first) > 0
    assert writer.has("q", 0) and not writer.has("q", 1)
    # Older, newer and of equal order; a delete of equal order; a delete that is late; a row behind a known delete.
    second = batch(("a", 1, 4, "four"), ("a", 2, 6, "six"), ("b", 1, 5, None), ("d", 1, 1, "one"), ("c", 1, 6, "six"))
    assert applied(writer, "q", 1, second) > 0
    writer.close()
    expected = [("a", 1, 5, "five"), ("a", 2, 6, "six"), ("d", 1, 1, "one")]
    assert rows_of(target) == expected
    writer = opened(target, clock)  # the next run
    assert applied(writer, "q", 1, second) == 0
    applied(writer, "p", 0, second)
    assert rows_of(target) == expected, "a backfill, which the table does not know, changes nothing"
    applied(writer, "p", 1, batch(("a", 1, 5, "again"), ("a", 2, 5, None), ("b", 1, 4, "late"), ("c", 1, 8, "new")))
    assert rows_of(target) == [("a", 1, 5, "five"), ("a", 2, 6, "six"), ("c", 1, 8, "new"), ("d", 1, 1, "one")]
    assert writer.rows() == 4
    writer.finish()
    writer.close()


@KINDS
def test_a_delete_is_remembered_for_one_horizon(kind: Any, tmp_path: Path, request: Any) -> None:
    target, clock = kind(tmp_path, request), Clock()
    writer = opened(target, clock)
    applied(writer, "q", 0, batch(("a", 1, 5, None)))
    clock.now_ms += HORIZON_MS
    applied(writer, "q", 1, batch(("b", 1, 5, None)))
    writer.finish()
    applied(writer, "q", 2, batch(("a", 1, 4, "late"), ("b", 1, 4, "late")))
    assert rows_of(target) == []
    clock.now_ms += 1
    applied(writer, "q", 3, batch(("c", 1, 1, "one")))
    writer.finish()
    applied(writer, "q", 4, batch(("a", 1, 4, "late"), ("b", 1, 4, "late")))
    assert rows_of(target) == [("a", 1, 4, "late"), ("c", 1, 1, "one")]
    writer.close()


@pytest.mark.parametrize("kind", [delta, iceberg])
def test_another_job_changes_the_table_in_between(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the table was looked at, and before the commit: also rows that were not there."""
    target, clock = kind(tmp_path, None), Clock()
    one, other = opened(target, clock), opened(target, clock)
    applied(one, "q", 0, batch(("a", 1, 1, "one"), ("b", 1, 1, "one")))
    added: Any = one._added  # type: ignore[attr-defined]
    look, looks = added.table, iter(range(9))

    def look_and_wait() -> Any:
        found = look()
        if next(looks) == 1:  # the first one asks for the mark of the batch
            theirs = (("a", 1, 7, "seven"), ("n", 1, 7, "seven"), ("b", 1, 3, None), ("z", 1, 7, None))
            applied(other, "p", 0, batch(*theirs))
        return found

    monkeypatch.setattr(added, "table", look_and_wait)
    ours = (("a", 1, 6, "six"), ("n", 1, 6, "six"), ("m", 1, 6, "six"), ("z", 1, 6, "six"), ("b", 1, 2, None))
    applied(one, "q", 1, batch(*ours))
    assert rows_of(target) == [("a", 1, 7, "seven"), ("m", 1, 6, "six"), ("n", 1, 7, "seven")]


@pytest.mark.slow
def test_a_transaction_that_gave_way_to_another_one_is_made_again(postgresql: Place) -> None:
    """Two jobs with the same two tables, each of which begins with another one: the server ends one of them."""
    postgresql.execute(CREATE, CREATE.replace("notes", "others"))
    dsn = f"{postgresql.dsn}?options=-c%20deadlock_timeout%3D50ms"
    targets = [PostgresqlTarget(dsn=dsn, table=name, key=KEY) for name in ("notes", "others")]
    jobs: list[list[Writer]] = []
    databases = [Databases(), Databases()]
    for job in range(2):
        jobs.append([opened(target, Clock(), databases[job], target.table) for target in targets])
    staged = [described(batch(("a", 1, 1, "one")))]
    for job in range(2):
        assert jobs[job][job].accepts(f"q{job}", 0, staged)

    def finish(job: int) -> None:
        for number in (1 - job, job):
            assert jobs[job][number].accepts(f"q{job}", 0, staged)
            jobs[job][number].commit(f"q{job}", 0, staged)

    def run(job: int) -> None:
        patience = Patience(30_000, SystemClock(), SystemRng())

        def attempt() -> None:
            finish(job)

        try:
            attempt()
        except TargetAway:
            gave_way.append(job)
            databases[job].undo_all()
            patience.call("again", attempt)

    gave_way: list[int] = []
    threads = [threading.Thread(target=run, args=(job,)) for job in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(gave_way) == 1
    assert [writer.has(f"q{job}", 0) for job, writers in enumerate(jobs) for writer in writers] == [True] * 4
    assert rows_of(targets[0]) == [("a", 1, 1, "one")]


def test_rows_that_postgresql_refuses_are_named(tmp_path: Path, postgresql: Place) -> None:
    """Also deletes, which have no values but their key and order."""
    target = in_postgresql(tmp_path, type("", (), {"getfixturevalue": lambda _: postgresql}))
    writer = opened(target, Clock())
    assert applied(writer, "q", 0, batch(("a", 1, 1, "one"), ("b", 1, 1, "one"))) == 2
    postgresql.execute(
        "CREATE TABLE users (id text, part int, FOREIGN KEY (id, part) REFERENCES notes)",
        "INSERT INTO users VALUES ('b', 1)",
    )
    rows = batch(("c", 1, 1, "too long"), ("d", 1, 2, "two"), ("a", 1, 2, None), ("b", 1, 2, None))
    assert writer.refusals("q", 1, rows) == {0: "the column note is too long for 5 characters"}
    rows = rows.slice(1)
    (refused,) = writer.refusals("q", 1, rows).items()
    assert refused[0] == 2 and "violates foreign key constraint" in refused[1]
    assert applied(writer, "q", 1, rows.slice(0, 2)) == 2
    assert rows_of(target) == [("b", 1, 1, "one"), ("d", 1, 2, "two")]
    assert postgresql.execute("SELECT key FROM gantry_deletes") == [('["a",1]',)], "nothing of what was refused stays"
    writer.close()


def test_a_long_run_forgets_deletes_before_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    from deltalake import DeltaTable

    from gantrymq.spark.pipelines.targets import changed_table

    monkeypatch.setattr(changed_table, "FORGET_AFTER", 3)
    clock = Clock()
    writer = opened(DeltaTarget(path=f"{tmp_path}/table"), clock)
    for number in range(6):
        clock.now_ms += HORIZON_MS // 2
        applied(writer, "q", number, batch((f"k{number}", 1, 1, "one"), ("gone", number, 1, None)))
    remembered = DeltaTable(f"{tmp_path}/table/_gantry_deletes").to_pyarrow_table()
    assert remembered.num_rows == 3
    writer.close()
