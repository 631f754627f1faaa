"""One message never stops a job: the messages behind a failing query, or behind a row that a target refuses, are found
and become dead letters with their own reasons, and all others are in every table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import Body, Events, Job, ParquetTarget
from gantrymq.spark.pipelines.run import failing_messages
from gantrymq.spark.pipelines.targets.port import RowRefused

pytestmark = pytest.mark.spark

LONG = "x" * 300


@pytest.fixture
def batches(spark: Any) -> Iterator[Any]:
    """Opens the targets of a job, and closes them."""
    from gantrymq.spark.pipelines.run.batches import Batches
    from gantrymq.spark.pipelines.run.event_stream import events_of
    from gantrymq.spark.pipelines.run.job_session import configure
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
    from gantrymq.spark.pipelines.run.projections import columns_of
    from gantrymq.spark.pipelines.run.rows_of_others import Always

    opened: list[Batches] = []

    before = spark.conf.getAll

    def write(job: Job, *values: Any, batch: int = 0) -> dict[str, int]:
        configure(spark, job)
        bodies = [json.dumps(value).encode() for value in values]
        rows = [("t", "b", 0, offset, bytearray(body)) for offset, body in enumerate(bodies)]
        messages = spark.createDataFrame(
            rows, "topic string, broker_name string, queue_id int, queue_offset bigint, body binary"
        )
        events = events_of(messages.repartition(2), job, None)
        while opened:
            opened.pop().close()
        opened.append(Batches(job, columns_of(spark, job, events), ProgressLines(None), OsDisk(), Always()))
        return opened[0].write(events, batch, "q")

    yield write
    while opened:
        opened.pop().close()
    for key in spark.conf.getAll:
        if key not in before:
            spark.conf.unset(key)


def job_with(where: Path, *queries: str, **changes: Any) -> Job:
    """A job whose first table has a directory for each value of ``kind``."""
    targets = {
        f"t{at}": ParquetTarget(path=f"{where}/t{at}", sql=sql, partition_by=("kind",) if at == 0 else ())
        for at, sql in enumerate(queries)
    }
    return Job(**{
        "name": "j", "checkpoint": f"{where}/checkpoint", "source": {}, "body": Body(schema="id int, kind string"),
        "targets": targets, "dead_letters": ParquetTarget(path=f"{where}/dead"), **changes,
    })  # fmt: skip


def rows(spark: Any, where: Path, name: str) -> list[Any]:
    from gantrymq.spark.pipelines.targets.parquet.tables import read_table

    return sorted(tuple(row) for row in read_table(spark, where / name).collect())


def dead(spark: Any, where: Path) -> dict[int, str]:
    return {row[3]: row[5] for row in rows(spark, where, "dead")}


EVENTS = [{"id": 1, "kind": "a"}, {"id": 2, "kind": LONG}, {"id": 0, "kind": "b"}, {"id": 3, "kind": "a"}]


@pytest.mark.parametrize(
    "first",
    [
        "SELECT * FROM events",
        "SELECT kind, count(*) AS c FROM events GROUP BY kind",
        "WITH e AS (SELECT * FROM events) SELECT kind, explode(array(1, 2)) AS n FROM e",
    ],
)
def test_a_message_is_in_all_tables_or_in_none(spark: Any, batches: Any, tmp_path: Path, first: str) -> None:
    job = job_with(tmp_path, first, "SELECT id, 6 div id AS part FROM events")
    added = batches(job, *EVENTS)
    assert rows(spark, tmp_path, "t1") == [(1, 6), (3, 2)]
    found = dead(spark, tmp_path)
    assert sorted(found) == [1, 2]
    assert found[1] == "targets.t0: the column kind has a value for which the name of a directory would have 305 bytes"
    assert found[2].startswith("targets.t1: its query fails: [DIVIDE_BY_ZERO]")
    assert added["dead_letters"] == 2
    # The batch runs again after a crash: the decision is known, and every target has it already.
    assert batches(job, *EVENTS) == {"t0": 0, "t1": 0, "dead_letters": 0}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 6 div id AS part FROM events WHERE 7 div id > 0",
        "SELECT part FROM (SELECT 6 div id AS part FROM events)",
        "SELECT 6 div id + 6 div id AS part FROM events",
    ],
)
def test_many_messages_for_which_a_query_fails(spark: Any, batches: Any, tmp_path: Path, sql: str) -> None:
    """Spark says which they are, where the error is in a column or a WHERE. In a subquery they are searched for."""
    job = job_with(tmp_path, "SELECT 'a' AS kind FROM events", sql)
    asked: list[str] = []
    evaluated = failing_messages.evaluated
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failing_messages, "evaluated", lambda frame, text: asked.append(text) or evaluated(frame, text))
        added = batches(job, *({"id": number % 4} for number in range(16)))
    assert added == {"t0": 12, "t1": 12, "dead_letters": 4}
    assert all("[DIVIDE_BY_ZERO]" in reason for reason in dead(spark, tmp_path).values())
    assert len(asked) <= 6 or "WHERE" not in sql


def test_messages_that_only_fail_together(spark: Any, batches: Any, tmp_path: Path) -> None:
    job = job_with(tmp_path, "SELECT 'a' AS kind, timestamp_millis(big) AS at FROM events",
                   "SELECT 'a' AS kind, cast(sum(small) AS tinyint) AS s FROM events",
                   body=Body(schema="big bigint, small tinyint"))  # fmt: skip
    batches(job, {"big": 1 << 62, "small": 1}, {"big": 1, "small": 100}, {"big": 2, "small": 100}, {"big": 3})
    found = dead(spark, tmp_path)
    assert found[0].startswith("targets.t0: its query fails: [DATETIME_OVERFLOW] ")
    assert found[1] == found[2] and found[1].startswith("targets.t1: ") and found[1].endswith("(with 1 other messages)")
    assert sorted(found) == [0, 1, 2]


@pytest.mark.parametrize("said", ["cast(kind AS int) > 1", "cast(kind AS int) > 1 AND cast(kind AS int) < 9"])
def test_a_condition_that_cannot_be_computed(spark: Any, batches: Any, tmp_path: Path, said: str) -> None:
    """Also where a part that fails occurs twice: Spark computed it before, and the batch ended."""
    job = job_with(tmp_path, "SELECT * FROM events", events=Events(key=("id",), valid=said))
    assert batches(job, {"id": 1, "kind": "2"}, {"id": 2, "kind": "x"}, {"id": 3, "kind": "1"}, {"id": 4},
                   {"kind": "5"}, {"id": "6"}) == {"t0": 1, "dead_letters": 5}  # fmt: skip
    assert dead(spark, tmp_path) == {
        1: f"the condition cannot be computed: {said}",
        2: f"the condition does not hold: {said}",
        3: f"the condition is null, so it does not hold: {said}",
        4: "the column id, which is part of events.key, is null",
        5: "the column id must be a whole number, and is a text",
    }


def test_a_key_within_a_struct(spark: Any, batches: Any, tmp_path: Path) -> None:
    job = job_with(tmp_path, "SELECT 'a' AS kind, n FROM events", events=Events(key=("user.id",)),
                   body=Body(schema="user struct<id: string>, n int"))  # fmt: skip
    assert batches(job, {"user": {"id": "a"}, "n": 1}, {"user": {"id": "a"}, "n": 1}, {"user": {"id": "b"}, "n": 2},
                   {"user": {}}, {"n": 3}) == {"t0": 2, "dead_letters": 2}  # fmt: skip
    assert set(dead(spark, tmp_path).values()) == {"the column user.id, which is part of events.key, is null"}


def test_a_decision_holds_after_a_crash_between_two_tables(
    spark: Any, batches: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gantrymq.spark.pipelines.targets.parquet import writer as parquet

    job = job_with(tmp_path, "SELECT kind, id FROM events", "SELECT id FROM events")
    with monkeypatch.context() as patch:
        patch.setattr(parquet.Table, "commit", lambda *_: exec("raise OSError('killed here')"))
        with pytest.raises(OSError, match="killed here"):
            batches(job, *EVENTS)
    monkeypatch.setattr(parquet, "LONGEST_NAME", 400)  # another file system: nothing would be refused now
    assert batches(job, *EVENTS) == {"t0": 3, "t1": 3, "dead_letters": 1}
    assert sorted(dead(spark, tmp_path)) == [1]


def test_a_job_without_dead_letters_says_which_message_stops_it(batches: Any, tmp_path: Path) -> None:
    job = job_with(tmp_path, "SELECT kind, id FROM events", dead_letters=None)
    with pytest.raises(RowRefused, match=r"the message t/b/0/1 cannot be written, and the job has no \[dead_letters\]"):
        batches(job, *EVENTS)
