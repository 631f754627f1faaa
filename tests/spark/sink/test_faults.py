"""exactly_once at every point where a driver can die, on a real broker: each row once, and nothing stays undecided.

The table of these points is in docs/spark-sink.md.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from gantrymq.admin.blocking import Admin
from gantrymq.errors import ConfigError
from gantrymq.spark.sink.checker import SinkChecker
from gantrymq.spark.sink.columns import SinkColumns
from gantrymq.spark.sink.exactly_once import Commit, Sent, send_halves
from gantrymq.spark.sink.ids import BatchId, query_digits
from gantrymq.spark.sink.options import SinkSettings
from gantrymq.spark.sink.processes import close_sink_processes
from tests.kill.server import Server
from tests.spark.sink.engine import COLUMNS, FAULTY, POINTS, all_rows, rows_of, settings_of
from tests.spark.sink.topics import bodies, open_halves

pytestmark = [pytest.mark.kill, pytest.mark.slow, pytest.mark.timeout(300)]

WAIT_S = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"), "ASYNC_FLUSH")
    running.start()
    yield running
    close_sink_processes()
    running.kill()


@pytest.fixture
def query(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("query")


def engine(server: Server, query: Path, point: str = "never", **options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.spark.sink.engine", server.name_servers, str(query), point]
    command += [f"{name}={value}" for name, value in options.items()]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)


def finished(server: Server, query: Path, **options: str) -> None:
    done = engine(server, query, **options)
    assert done.returncode == 0, done.stderr


def rows(server: Server, query: Path) -> list[str]:
    return sorted(bodies(server.name_servers, query.name))


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.mark.parametrize("point", POINTS[1:])
def test_each_row_is_there_once(server: Server, query: Path, point: str) -> None:
    first = engine(server, query, point)
    retried = point == "raise in a task"
    assert (first.returncode == 0) is retried, first.stderr
    assert set(rows(server, query)) >= rows_of(0) | rows_of(1)
    finished(server, query)
    assert rows(server, query) == all_rows()


@pytest.mark.parametrize("point", ["kill after the decision", "kill after the last end"])
def test_a_checker_commits_what_is_decided_when_the_driver_never_comes_back(
    server: Server, query: Path, point: str
) -> None:
    assert engine(server, query, point).returncode != 0
    decided = sorted(row for batch in range(FAULTY + 1) for row in rows_of(batch))
    with SinkChecker(server.name_servers, query.name, patience_s=0, interval_s=0.1):
        until(lambda: rows(server, query) == decided, "the checker did not commit the decided batch")
    finished(server, query)
    assert rows(server, query) == all_rows()


def test_the_command_finishes_what_a_killed_driver_has_left(server: Server, query: Path, tmp_path: Path) -> None:
    assert engine(server, query, "kill between the ends").returncode != 0
    command = [sys.executable, "-m", "gantrymq.cli.main", "spark-checker", "--name-servers", server.name_servers]
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen([*command, "--group", query.name, "--patience", "0"], stdout=log, stderr=log)
    try:
        said = tmp_path / "log"
        until(lambda: f"committed {len(rows_of(FAULTY))} messages" in said.read_text(), "nothing was committed")
    finally:
        running.terminate()
        status = running.wait(WAIT_S)
    assert status == 0, said.read_text()
    assert set(rows(server, query)) == rows_of(0) | rows_of(1) | rows_of(FAULTY)


def test_a_checker_that_is_killed_is_replaced_by_another_one(server: Server, query: Path, tmp_path: Path) -> None:
    """SIGKILL when it has begun to commit the batch. A driver that comes back finds nothing doubled, either."""
    assert engine(server, query, "kill after the decision").returncode != 0
    before = len(rows(server, query))
    command = [sys.executable, "-m", "gantrymq.cli.main", "spark-checker", "--name-servers", server.name_servers]
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen([*command, "--group", query.name, "--patience", "0"], stdout=log, stderr=log)
    until(lambda: len(rows(server, query)) > before, "the checker committed nothing")
    running.kill()
    running.wait(WAIT_S)
    decided = sorted(row for batch in range(FAULTY + 1) for row in rows_of(batch))
    with SinkChecker(server.name_servers, query.name, patience_s=0, interval_s=0.1):
        until(lambda: rows(server, query) == decided, "the second checker did not finish the batch")
    finished(server, query)
    assert rows(server, query) == all_rows()


@pytest.mark.parametrize("point", ["kill in a task", "kill before the decision"])
def test_a_checker_rolls_back_what_was_never_decided(server: Server, query: Path, point: str) -> None:
    """Without any message of the batch, and without a half message that stays open."""
    assert engine(server, query, point, undecidedTimeout="1s").returncode != 0
    with SinkChecker(server.name_servers, query.name, interval_s=0.1):
        until(lambda: not open_halves(server.name_servers, query.name), "half messages stayed open")
    assert rows(server, query) == sorted(rows_of(0) | rows_of(1))
    finished(server, query)
    assert rows(server, query) == all_rows()


def test_the_broker_is_killed_while_batches_are_written(server: Server, query: Path) -> None:
    """Tasks, decisions and ends wait until it is back, and repeat what was not answered."""
    command = [sys.executable, "-m", "tests.spark.sink.engine", server.name_servers, str(query), "never"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        for batch in range(3):
            until(lambda: (query / str(batch)).exists() or running.poll() is not None, "no batch was written")  # noqa: B023
            server.kill()
            server.start()
        assert running.wait(WAIT_S) == 0, running.stderr.read() if running.stderr else ""
    assert rows(server, query) == all_rows()


def test_a_driver_that_was_replaced_cannot_write(server: Server, query: Path) -> None:
    """It has sent its half messages before another driver wrote the same batch; then it goes on."""
    settings = settings_of(server.name_servers, query.name)
    of = BatchId(query_digits("zombie"), 0)

    def sent(*rows: str) -> list[Sent]:
        batches = iter([pa.RecordBatch.from_pydict({"body": list(rows)})])
        return [Sent(of, "zombie", send_halves(settings, COLUMNS, of, 0, batches))]

    old, new = sent("old"), sent("new")
    Commit(settings).commit(new)
    Commit(settings).commit(old)
    Commit(settings).abort(old)
    assert rows(server, query) == ["new"]
    assert open_halves(server.name_servers, query.name) == 0
    assert sent("late")[0].winner is None


def test_a_copied_checkpoint_with_another_topic_is_refused(server: Server, query: Path) -> None:
    """Its batches are decided, and their rows are in the other topic: without an error they would be nowhere."""
    settings = settings_of(server.name_servers, query.name)
    of = BatchId(query_digits(f"copied {query.name}"), 0)

    def sent(settings: SinkSettings, columns: SinkColumns = COLUMNS, **rows: list[str | None]) -> list[Sent]:
        return [Sent(of, "copied", send_halves(settings, columns, of, 0, iter([pa.RecordBatch.from_pydict(rows)])))]

    Commit(settings).commit(sent(settings, body=["row"]))
    with pytest.raises(ConfigError, match=f"batch 0 of this query .* only to {query.name}, .* rows for Other would be"):
        sent(replace(settings, topic="Other"), body=["row"])
    with_topic = SinkColumns(body=0, topic=1)
    with pytest.raises(ConfigError, match="rows for Third would be in no topic"):
        sent(settings, with_topic, body=["row", "row"], topic=[None, "Third"])
    with pytest.raises(ConfigError, match=r"the write w-1 was made before.* another writeId"):
        sent(replace(settings, topic="Other", write_id="w-1"), body=["row"])
    assert sent(settings, body=["row"])[0].winner is None
    assert sent(replace(settings, topic="Other"), body=[])[0].winner is None
    assert rows(server, query) == ["row"]


def test_an_abort_makes_a_late_decision_impossible(server: Server, query: Path) -> None:
    settings = settings_of(server.name_servers, query.name)
    of = BatchId(query_digits("aborted"), 0)
    batches = iter([pa.RecordBatch.from_pydict({"body": ["row"]})])
    sent = [Sent(of, "aborted", send_halves(settings, COLUMNS, of, 0, batches))]
    Commit(settings).abort(sent)
    with pytest.raises(ConfigError, match="longer than undecidedTimeout"):
        Commit(settings).commit(sent)
    assert open_halves(server.name_servers, query.name) == 0
    assert rows(server, query) == []


def test_without_its_control_topic_a_query_stops_and_says_why(server: Server, query: Path) -> None:
    assert engine(server, query, "kill after the last end").returncode != 0
    with Admin(server.name_servers) as admin:
        admin.delete_topic(f"{query.name}-decisions")
    failed = engine(server, query, "", writeTimeout="1s")
    assert f"the control topic {query.name}-decisions cannot say which batches were written" in failed.stderr
    assert "controlTopicLost=accept" in failed.stderr
    assert set(rows(server, query)) == rows_of(0) | rows_of(1) | rows_of(FAULTY)
    finished(server, query, controlTopicLost="accept")
    assert set(rows(server, query)) == set(all_rows())  # batch 2 is there twice: that is what the error warned of
