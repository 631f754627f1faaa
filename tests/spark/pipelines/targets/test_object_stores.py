"""Tables in object stores, on the S3 server of the package ``moto`` and on one with Google's API: real requests, as to
every other such server. And what is said where nobody has credentials."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("moto")
from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import DeltaTarget, IcebergTarget, ParquetTarget
from gantrymq.spark.pipelines.targets import object_stores
from gantrymq.spark.pipelines.targets.object_stores import GOOGLES_SERVER, _store, disk_of, not_opened
from gantrymq.spark.pipelines.targets.writers import is_there
from tests.spark.pipelines.s3_server import BUCKET, googles_server, s3_server
from tests.spark.pipelines.staged import added
from tests.spark.pipelines.targets.test_targets import known, opened, rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server. The environment names it, as jobs expect it."""
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield environment["AWS_ENDPOINT_URL"]


def delta(where: Path, store: str) -> Any:
    pytest.importorskip("deltalake")
    return DeltaTarget(path=f"s3://{BUCKET}/{where.name}")


def parquet(where: Path, store: str) -> Any:
    return ParquetTarget(path=f"s3://{BUCKET}/{where.name}")


def iceberg(where: Path, store: str) -> Any:
    pytest.importorskip("pyiceberg")
    catalog = {
        "type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"s3://{BUCKET}/{where.name}",
        "s3.endpoint": store, "s3.region": "us-east-1",
    }  # fmt: skip
    return IcebergTarget(table="shop.orders", catalog=catalog)


def parquet_of_google(where: Path, store: str) -> Any:
    return ParquetTarget(path=f"gs://{BUCKET}/{where.name}")


@pytest.fixture(scope="module", autouse=True)
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server with the API of Google's, which the environment names."""
    with (
        googles_server(tmp_path_factory.mktemp("google") / "log") as environment,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in environment.items():
            patch.setenv(name, value)
        _store.cache_clear()
        yield
    _store.cache_clear()


@pytest.mark.parametrize("kind", [delta, iceberg, parquet, parquet_of_google])
def test_a_table_has_each_batch_once(kind: Callable[[Path, str], Any], tmp_path: Path, store: str) -> None:
    target = kind(tmp_path, store)
    assert not is_there("t", target, OsDisk())
    writer = opened(target)
    assert is_there("t", target, OsDisk())
    assert added(writer, "q", 0, rows("a", "b")) == 2
    writer.close()
    writer = opened(target)  # the next run, to which Spark gives the last batch again
    assert writer.has("q", 0) and not writer.has("q", 1)
    assert added(writer, "q", 0, rows("a", "b")) == 0
    other = opened(target)
    assert added(other, "p", 0, rows("c")) == 1
    assert added(writer, "q", 1, rows("d")) == 1, "somebody else has written in between"
    assert (writer.others("q"), known(writer, "q", "c", "x")) == ({"p": 0}, ["c"])
    writer.finish()
    assert writer.rows() == other.rows() == 4
    writer.close()
    other.close()


@pytest.mark.spark
def test_an_archive_in_an_object_store(spark: Any, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written and read by the workers of Spark, which has no library for it. A lost checkpoint doubles nothing."""
    pytest.importorskip("pyspark")
    for name in (name for name in os.environ if name.startswith("AWS_")):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])  # it began before the store did
    from gantrymq.message.queues import MessageQueue
    from gantrymq.spark.pipelines.ready_made.archive import archive_job, days_of
    from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
    from gantrymq.spark.pipelines.run.running import Ending, process
    from tests.spark.fakes import FakeBroker
    from tests.spark.log_server import LogServer

    archive = f"s3://{BUCKET}/archive"
    with LogServer(FakeBroker()) as server:
        server.broker.fill(MessageQueue("orders", "broker-a", 0), 10)
        for checkpoint in ("1", "2"):
            job = archive_job(server.address, "orders", archive, f"{tmp_path}/{checkpoint}")
            assert process(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk()) == {"messages": 10}
    (day,) = days_of(archive, OsDisk())
    rows = day.read(spark).collect()
    assert sorted(row.queue_offset for row in rows) == list(range(10))
    assert {row.topic for row in rows} == {"orders"} and {row.day for row in rows} == {day.day}
    job = archive_job("127.0.0.1:1", "orders", archive, f"s3a:///{BUCKET}/checkpoint")
    with pytest.raises(ConfigError, match=r"the package org\.apache\.hadoop:hadoop-aws:3[0-9.]+ is missing"):
        process(spark, job, Ending(until_end=True), ProgressLines(None), OsDisk())


def test_without_credentials_the_error_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the library of Parquet tables and checkpoints, and of that of Delta. Their file is missing, so nobody outside
    is asked."""
    monkeypatch.delenv(GOOGLES_SERVER)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    monkeypatch.setattr(object_stores, "_LOOK_SECONDS", 1)
    _store.cache_clear()
    path = f"gs://{BUCKET}/table"
    asks: tuple[Callable[[], object], ...] = (
        lambda: disk_of(path, OsDisk()).exists(path),
        lambda: is_there("t", DeltaTarget(path=path), OsDisk()),
    )
    for ask in asks:
        with pytest.raises(ConfigError, match=f"{path} cannot be opened: .*by GOOGLE_APPLICATION_CREDENTIALS"):
            ask()
    _store.cache_clear()


def test_what_azure_says_is_one_sentence() -> None:
    """As ``deltalake`` said it where no credentials were."""
    said = OSError(
        "Generic MicrosoftAzure error\n          \x1b[31m↳\x1b[0m Error performing token request\n           "
        "\x1b[31m↳\x1b[0m Error performing GET\n"
    )
    assert str(not_opened("abfss://lake@localhost/x", said)) == (
        "abfss://lake@localhost/x cannot be opened: Generic MicrosoftAzure error; Error performing token request. The "
        "environment says who asks, by AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
    )
