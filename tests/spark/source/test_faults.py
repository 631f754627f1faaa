"""A stream of the source on a real broker, without Spark: what dies at every point, and what happens to brokers.

``kill_spark.py`` and ``break_broker.py`` do the same to real Spark; docs/spark.md has the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.datasource import InputPartition

from gantrymq import Message, Producer
from gantrymq.errors import GantryError
from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.source.connections import OF_THIS_PROCESS
from gantrymq.spark.source.reading import DataLost
from gantrymq.spark.source.stream import StreamReader
from tests.interop.ours import GantryCluster
from tests.kill.server import Server
from tests.spark.source.brokers import expire_log, fill_log_files, make_again
from tests.spark.source.points import BATCHES, COLUMNS, POINTS, ROWS, TOPIC, FaultyTables, fill, make_topic, verdict_of

pytestmark = [pytest.mark.kill, pytest.mark.slow, pytest.mark.timeout(300)]

WAIT_S = 240


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "server", "ASYNC_FLUSH")
    running.start()
    make_topic(running.name_servers)
    yield running
    OF_THIS_PROCESS.close()
    running.kill()


class Query:
    """A stream, whose batches are taken one by one."""

    def __init__(self, server: Server | GantryCluster, **options: str) -> None:
        given = {"nameServers": server.name_servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
        self._reader = StreamReader(parse_options({**given, "pullMaxRows": "30", **options}).for_stream(), COLUMNS)
        self._at = self._reader.initialOffset()

    def batch(self) -> Iterator[str]:
        """The bodies of the next batch, which is planned now and read as they are taken."""
        start, self._at = self._at, self._reader.latestOffset(self._at, self._reader.getDefaultReadLimit())
        return self._read(self._reader.partitions(start, self._at))

    def _read(self, parts: list[InputPartition]) -> Iterator[str]:
        for part in parts:
            for rows in self._reader.read(part):
                yield from (body.decode().strip() for body in rows.column(2).to_pylist())


def test_each_row_is_in_each_table_once_wherever_the_query_dies(server: Server, tmp_path: Path) -> None:
    rows = fill(server.name_servers, TOPIC, BATCHES * ROWS)
    command = [sys.executable, "-m", "tests.spark.source.engine", server.name_servers, str(tmp_path), *POINTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    for point in POINTS:
        first = -9 if point.startswith("kill") else 0 if point == "raise in a task" else 1
        assert codes[point] == [first, 0], f"{point}\n{done.stderr}"
        directory = tmp_path / point.replace(" ", "-")
        assert (directory / "mark").exists(), point
        assert FaultyTables(directory).verdicts(rows) == {"exactly once"}, point


def test_the_broker_is_killed_while_a_batch_is_read_and_while_one_is_planned(server: Server) -> None:
    rows = fill(server.name_servers, TOPIC, 300)
    query = Query(server)
    batch = query.batch()
    found = [next(batch)]
    server.kill()
    server.start()
    found += batch
    rows += fill(server.name_servers, TOPIC, 100, "later")
    server.kill()
    with ThreadPoolExecutor(1) as planning:
        waiting = planning.submit(lambda: list(query.batch()))
        server.start()
        found += waiting.result(WAIT_S)
    assert verdict_of(found, rows) == "exactly once"


def test_retention_overtakes_a_slow_query(server: Server) -> None:
    rows = fill_log_files(server, TOPIC)
    strict, lenient = Query(server), Query(server, failOnDataLoss="false")
    batches = [query.batch() for query in (strict, lenient)]
    read = [[next(batch)] for batch in batches]
    expire_log(server)
    with pytest.raises(DataLost, match=rf"messages \d+ to \d+ of {TOPIC}/broker-kill/0 cannot be read"):
        read[0] += batches[0]
    read[1] += batches[1]
    left, kept = set(Query(server).batch()), set(read[1])
    assert left < kept < {row.strip() for row in rows}, "it also read what was there when it began"
    assert len(read[1]) == len(kept)
    assert list(lenient.batch()) == []


def test_a_topic_is_deleted_and_made_again(server: Server) -> None:
    fill(server.name_servers, TOPIC, 100)
    strict, lenient = (Query(server, readTimeout="1s", failOnDataLoss=fail) for fail in ("true", "false"))
    assert len(list(strict.batch())) == len(list(lenient.batch())) == 100
    make_again(server, TOPIC, 2)
    fill(server.name_servers, TOPIC, 20, "not noticed")
    with pytest.raises(GantryError, match=f"{TOPIC}/broker-kill/0.* end before what was already read"):
        list(strict.batch())
    assert list(lenient.batch()) == []
    new = fill(server.name_servers, TOPIC, 50, "new")
    assert verdict_of(list(lenient.batch()), new) == "exactly once"


def test_a_topic_gets_more_queues(server: Server) -> None:
    query = Query(server, discoveryInterval="0s")
    rows = fill(server.name_servers, TOPIC, 20)
    found = list(query.batch())
    make_topic(server.name_servers, TOPIC, 5)
    rows += fill(server.name_servers, TOPIC, 50, "grown")
    found += query.batch()
    assert verdict_of(found, rows) == "exactly once"


def test_known_queues_are_read_while_no_name_server_is_there(tmp_path: Path) -> None:
    """The broker is alive. Workers of Spark that are new know no broker, and ask nobody who is gone."""
    cluster = GantryCluster(tmp_path)
    try:
        names = cluster.start_name_server()
        cluster.start_broker()
        make_topic(cluster.name_servers)
        query = Query(cluster, discoveryInterval="0s", readTimeout="2s")
        rows = fill(cluster.name_servers, TOPIC, 20)
        found = list(query.batch())
        with Producer("open", name_servers=cluster.name_servers) as producer:
            producer.send(Message(TOPIC, "before"))
            names.kill()
            producer.send(Message(TOPIC, "after"))
            batch = query.batch()
            OF_THIS_PROCESS.close()
            found += batch
    finally:
        OF_THIS_PROCESS.close()
        cluster.close()
    assert verdict_of(found, [*rows, "before", "after"]) == "exactly once"
