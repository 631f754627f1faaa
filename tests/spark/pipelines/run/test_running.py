"""Jobs of users, run on Spark: bodies to tables, repeats, dead letters, time ranges."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import Body, Events, Job, ParquetTarget, PostgresqlTarget, Run
from tests.spark.fakes import START_MS, FakeBroker
from tests.spark.log_server import LogServer
from tests.spark.pipelines.targets.test_postgresql import END_OTHERS
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

pytestmark = pytest.mark.spark

TOPIC = "clicks"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
STEP_SECONDS = 120


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(FakeBroker(answers_at_most=5000)) as running:
        running.broker.logs[QUEUE] = {}
        yield running


def job_at(where: Path, server: LogServer, **changes: Any) -> Job:
    parts: dict[str, Any] = {
        "name": "clicks",
        "checkpoint": f"{where}/checkpoint",
        "source": {"nameServers": server.address, "subscribe": TOPIC, "columns": "store_timestamp"},
        "body": Body(schema="id string, page string, tags array<string>"),
        "events": Events(key=("id",), valid="page like '/%'"),
        "targets": {
            "pages": ParquetTarget(
                path=f"{where}/pages", sql="SELECT id, page, message.store_timestamp AS at FROM events"
            ),
            "tags": ParquetTarget(path=f"{where}/tags", sql="SELECT id, explode(tags) AS tag FROM events"),
        },
        "dead_letters": ParquetTarget(path=f"{where}/rejected"),
        "run": Run(interval="50ms"),
    }
    return Job(**{**parts, **changes})


def send(server: LogServer, *numbers: int | bytes) -> None:
    for number in numbers:
        body = json.dumps({"id": f"c{number}", "page": f"/{number}", "tags": ["x", "y"]}).encode()
        server.broker.append(QUEUE, number if isinstance(number, bytes) else body)


def process(spark: Any, job: Job, **ending: Any) -> dict[str, int]:
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
    from gantrymq.spark.pipelines.run.running import Ending
    from gantrymq.spark.pipelines.run.running import process as run_here

    return run_here(spark, job, Ending(**ending or {"until_end": True}), ProgressLines(None), OsDisk())


def rows(spark: Any, where: Path, name: str) -> list[Any]:
    from gantrymq.spark.pipelines.targets.parquet.tables import read_table

    return sorted(tuple(row) for row in read_table(spark, where / name).collect())


def test_messages_become_rows_of_each_projection(spark: Any, server: LogServer, tmp_path: Path) -> None:
    bad = [
        b"no json",
        b" ",
        b"[]",
        b"5",
        b'{"page": "/no-id"}',
        b'{"id": "a", "page": "no path"}',
        b'{"id": "a", "page": {}}',
    ]
    send(server, 0, 1, *bad, 1, 2)
    job = job_at(tmp_path, server)
    assert process(spark, job) == {"pages": 3, "tags": 6, "dead_letters": len(bad)}
    send(server, 2, 3)
    assert process(spark, job) == {"pages": 4, "tags": 8, "dead_letters": len(bad)}
    pages = rows(spark, tmp_path, "pages")
    assert [row[:2] for row in pages] == [(f"c{number}", f"/{number}") for number in range(4)]
    assert pages[0][2].timestamp() * 1000 == START_MS
    assert rows(spark, tmp_path, "tags")[:2] == [("c0", "x"), ("c0", "y")]
    rejected = rows(spark, tmp_path, "rejected")
    assert sorted(bytes(row[4]) for row in rejected) == sorted(bad)
    assert {bytes(row[4]): row[5] for row in rejected} == {
        b"no json": "the body is not JSON: invalid character near byte 4",
        b" ": "the body is empty",
        b"[]": "the body must be an object, and is a list",
        b"5": "the body must be an object, and is a whole number",
        b'{"page": "/no-id"}': "the column id, which is part of events.key, is null",
        b'{"id": "a", "page": "no path"}': "the condition does not hold: page like '/%'",
        b'{"id": "a", "page": {}}': "the column page must be a text, and is an object",
    }
    assert not list((tmp_path / "pages").rglob("*.crc"))
    # Any other reader of the directory agrees.
    assert spark.read.parquet(f"{tmp_path}/pages").count() == 4


def test_a_checkpoint_does_not_go_on_without_its_tables(spark: Any, server: LogServer, tmp_path: Path) -> None:
    from gantrymq.spark.pipelines.run.backfill import process_range
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
    from gantrymq.spark.pipelines.run.running import TableLost

    send(server, 0, 1)
    job = job_at(tmp_path, server)
    assert process(spark, job)["pages"] == 2
    send(server, 2)
    (tmp_path / "pages").rename(tmp_path / "moved")
    with pytest.raises(TableLost, match=r"the target pages is not in .*/pages. Move it back; or fill"):
        process(spark, job)
    assert not (tmp_path / "pages").exists()
    (tmp_path / "moved").rename(tmp_path / "pages")
    assert process(spark, job)["pages"] == 3
    shutil.rmtree(tmp_path / "pages")
    process_range(spark, job, START_MS, START_MS + 60_000, 60_000, ProgressLines(None))
    assert process(spark, job) == {"pages": 3, "tags": 6, "dead_letters": 0}, "a backfill fills a lost table"


def test_keys_are_on_the_disk_and_forgotten_after_the_horizon(
    spark: Any, server: LogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gantrymq.spark.pipelines.run import running

    states: list[dict[str, Any]] = []
    reached_by = running.reached_by

    def watch(query: Any) -> Any:
        states.extend(state for one in query.recentProgress for state in one["stateOperators"])
        return reached_by(query)

    monkeypatch.setattr(running, "reached_by", watch)
    stop = tmp_path / "stop"
    job = job_at(tmp_path, server, events=Events(key=("id",), horizon="1s"))
    failures: list[BaseException] = []

    def produce() -> None:
        end, number = time.monotonic() + STEP_SECONDS, 1
        try:
            send(server, 0)
            while not any(state["numRowsRemoved"] for state in states):
                assert time.monotonic() < end, "no key was forgotten"
                send(server, number)
                number += 1
                time.sleep(0.1)
            send(server, 0)
        except BaseException as error:
            failures.append(error)
        finally:
            stop.touch()

    producer = threading.Thread(target=produce)
    producer.start()
    process(spark, job, stop_file=str(stop))
    producer.join()
    assert not failures
    assert [row[0] for row in rows(spark, tmp_path, "pages")].count("c0") == 2
    assert states[-1]["operatorName"] == "dedupeWithinWatermark"
    assert "rocksdbPutCount" in states[-1]["customMetrics"]


def test_a_time_range_is_added_once(spark: Any, server: LogServer, tmp_path: Path) -> None:
    """The fake broker stores a message each millisecond. A range that is run again, or that overlaps, adds nothing."""
    from gantrymq.spark.pipelines.run.backfill import process_range
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines

    send(server, *range(10), 2, 3)
    job = job_at(tmp_path, server)

    def backfill(begin: int, end: int) -> int:
        return process_range(spark, job, START_MS + begin, START_MS + end, 4, ProgressLines(None), OsDisk())["pages"]

    assert backfill(2, 8) == 6
    assert backfill(2, 8) == 6
    assert backfill(0, 12) == 10
    assert [row[0] for row in rows(spark, tmp_path, "pages")] == [f"c{number}" for number in range(10)]
    assert len(rows(spark, tmp_path, "tags")) == 20


def test_a_slice_with_more_messages_than_a_batch_is_processed_in_parts(
    spark: Any, server: LogServer, tmp_path: Path
) -> None:
    """Also when it is interrupted between two of them. All repeats of a key are in one part."""
    from gantrymq.spark.pipelines.run import backfill as time_range
    from gantrymq.spark.pipelines.run.backfill import process_range
    from gantrymq.spark.pipelines.run.batches import Batches
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines

    send(server, *range(10), *range(10))
    job = job_at(tmp_path, server)
    job = msgspec.structs.replace(job, run=msgspec.structs.replace(job.run, max_rows=3))
    written: list[tuple[int, str]] = []

    class Ends(Batches):
        def write(self, batch: Any, number: int, query: str) -> dict[str, int]:
            if len(written) == 2:
                raise KeyboardInterrupt
            written.append((number, query))
            return super().write(batch, number, query)

    def backfill() -> dict[str, int]:
        return process_range(spark, job, START_MS, START_MS + 60_000, 60_000, ProgressLines(None), OsDisk())

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(time_range, "Batches", Ends)
        backfill()
    assert [number for number, _ in written] == [0, 1] and written[0][1].endswith("-4")
    for _ in range(2):
        assert backfill() == {"pages": 10, "tags": 20, "dead_letters": 0}
    assert [row[0] for row in rows(spark, tmp_path, "pages")] == [f"c{number}" for number in range(10)]


def test_a_batch_is_written_again_when_its_database_has_ended_the_connection(
    spark: Any, server: LogServer, tmp_path: Path, postgresql: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gantrymq.spark.pipelines.targets.postgresql.writer import PostgresqlWriter

    postgresql.execute("CREATE TABLE pages (id text PRIMARY KEY, page text)")
    ended: list[Any] = []
    commit = PostgresqlWriter.commit

    def after_others(writer: PostgresqlWriter, query: str, batch: int, staged: Any) -> int:
        if not ended:  # behind the rows of both targets, and before the commit
            ended.extend(postgresql.execute(END_OTHERS))
        return commit(writer, query, batch, staged)

    monkeypatch.setattr(PostgresqlWriter, "commit", after_others)
    send(server, 0, 1, 1)
    sql = "SELECT id, page FROM events"
    targets = {
        "first": ParquetTarget(path=f"{tmp_path}/first", sql=sql),
        "pages": PostgresqlTarget(dsn=postgresql.dsn, table="pages", key=("id",), sql=sql),
    }
    assert process(spark, job_at(tmp_path, server, targets=targets)) == {"first": 2, "pages": 2, "dead_letters": 0}
    assert ended == [(True,)]


def test_batches_in_a_process_of_a_server(spark: Any, server: LogServer, tmp_path: Path) -> None:
    """What a client of Spark Connect sends is pickled; it counts the rows when the server has let go of the targets."""
    from gantrymq.spark.pipelines.run import event_stream, running
    from gantrymq.spark.pipelines.run.messages import messages_between
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
    from gantrymq.spark.pipelines.run.projections import columns_of
    from gantrymq.spark.pipelines.run.remote_batches import RemoteBatches, reopened

    send(server, *range(5), 2)
    job = job_at(tmp_path, server, run=Run(master="sc://127.0.0.1:15002"))
    columns = columns_of(spark, job, running.events_without_source(spark, job))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "the-query"}')
    events = event_stream.events_of(messages_between(spark, job, START_MS, START_MS + 6), job, None)
    in_server = pickle.loads(pickle.dumps(RemoteBatches(job, columns)))
    for _ in range(2):  # Spark repeats a batch
        in_server(events, 0)
    ending = threading.Timer(0.5, in_server.close)
    ending.start()
    in_client = reopened(job, columns, ProgressLines(None), OsDisk())
    try:
        assert in_client.rows() == {"pages": 5, "tags": 10, "dead_letters": 0}
    finally:
        in_client.close()


def test_avro_on_spark(spark: Any, server: LogServer, tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    from io import BytesIO

    schema = {"type": "record", "name": "Click", "fields": [
        {"name": "id", "type": "string"}, {"name": "count", "type": ["null", "int"]}]}  # fmt: skip
    (tmp_path / "click.avsc").write_text(json.dumps(schema))
    for number in (1, 2, 2):
        stream = BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), {"id": f"c{number}", "count": number})
        send(server, stream.getvalue())
    send(server, b"\xff")
    job = job_at(
        tmp_path, server, body=Body(format="avro", schema_file=f"{tmp_path}/click.avsc"), events=Events(key=("id",)),
        targets={"pages": ParquetTarget(path=f"{tmp_path}/pages", sql="SELECT id, count * 2 AS twice FROM events")},
    )  # fmt: skip
    assert process(spark, job) == {"pages": 2, "dead_letters": 1}
    assert rows(spark, tmp_path, "pages") == [("c1", 2), ("c2", 4)]


def test_queries_are_checked_before_anything_runs(spark: Any, server: LogServer, tmp_path: Path) -> None:
    from gantrymq.spark.pipelines.run import running
    from gantrymq.spark.pipelines.run.projections import columns_of

    def checked(**changes: Any) -> Any:
        job = job_at(tmp_path, server, **changes)
        return columns_of(spark, job, running.events_without_source(spark, job))

    assert checked()["tags"].ddl == "id string, tag string"
    for sql, message in (
        ("SELECT nothing FROM events", r"targets.t.sql: Spark refuses this query: .*nothing"),
        ("SELECT id, page AS id FROM events", "two columns have one name: id, id"),
    ):
        with pytest.raises(ConfigError, match=message):
            checked(targets={"t": ParquetTarget(path=f"{tmp_path}/t", sql=sql)})
    with pytest.raises(ConfigError, match="the projection has no column day, which the target needs"):
        checked(targets={"t": ParquetTarget(path=f"{tmp_path}/t", partition_by=("day",))})
    with pytest.raises(ConfigError, match=r"events.key: the events have no column order_id; they have id, page"):
        checked(events=Events(key=("order_id",)))
