"""Jobs whose bodies name their schemas in a registry, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry")

from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import Body, Events, Job, ParquetTarget, Run
from gantrymq.spark.pipelines.run.batches import Batches
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.registry_check import SchemasUnreadable
from gantrymq.spark.pipelines.run.running import Ending, process
from gantrymq.spark.registry.place import PASSWORD, USER
from gantrymq.spark.registry.wire import header
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer
from tests.spark.registry.contract import ORDER
from tests.spark.registry.decoding import in_avro
from tests.spark.registry.server import RegistryServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]
QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def server() -> Iterator[LogServer]:
    with LogServer(FakeBroker(answers_at_most=5000)) as running:
        running.broker.logs[QUEUE] = {}
        yield running


def job_at(where: Path, server: LogServer, registry: str) -> Job:
    return Job(
        name="orders",
        checkpoint=f"{where}/checkpoint",
        source={"nameServers": server.address, "subscribe": "orders"},
        body=Body(format="avro", registry=registry, subject="orders-value"),
        events=Events(key=("id",)),
        targets={
            name: ParquetTarget(path=f"{where}/{name}", sql="SELECT id FROM events") for name in ("first", "second")
        },
        dead_letters=ParquetTarget(path=f"{where}/dead"),
        run=Run(interval="0ms"),
    )


def ids_in(where: Path, name: str) -> list[Any]:
    table = ds.dataset(f"{where}/{name}", format="parquet", exclude_invalid_files=True).to_table()
    return sorted(table["id" if name != "dead" else "queue_offset"].to_pylist())


def run(spark: Any, job: Job) -> None:
    process(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk())


def test_a_schema_that_is_registered_between_two_attempts_of_a_batch(
    spark: Any, server: LogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One target had the batch when the registry did not know the schema: the message stays a dead letter."""
    with RegistryServer() as registry:
        first = registry.register("orders-value", ORDER)
        job = job_at(tmp_path, server, registry.url)
        for number, name in ((first, "o-1"), (first + 1, "o-2")):
            server.broker.append(QUEUE, header(number) + in_avro(ORDER, {"id": name}))
        commit = Batches._commit

        def fail_second(self: Batches, name: str, *rest: Any) -> int:
            if name == "second":
                raise OSError("the machine is gone")
            return commit(self, name, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(Batches, "_commit", fail_second)
            with pytest.raises(Exception, match="the machine is gone"):
                run(spark, job)
        assert registry.register("orders-value", {**ORDER, "doc": "later"}) == first + 1
        # Another account, so that the workers do not remember what they were told.
        monkeypatch.setenv(USER, "ann")
        monkeypatch.setenv(PASSWORD, "secret")
        run(spark, job)
        assert (ids_in(tmp_path, "first"), ids_in(tmp_path, "second")) == (["o-1"], ["o-1"])
        assert ids_in(tmp_path, "dead") == [1]
        registry.register("orders-value", {**ORDER, "fields": [{"name": "id", "type": "long"}]})
        registry.register("orders-value", {**ORDER, "doc": "newest"})
        with pytest.raises(SchemasUnreadable, match="the field id: long cannot be read as string"):
            run(spark, job_at(tmp_path / "other", server, registry.url))
