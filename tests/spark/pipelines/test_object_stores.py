"""Tables in an object store, on the S3 server of the package ``moto``: real requests, as to every other such server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("moto")
from gantrymq.demo.ports import free_port
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import DeltaTarget, IcebergTarget
from gantrymq.spark.pipelines.targets.writer import is_there
from tests.kill.server import die_with_parent
from tests.spark.pipelines.test_targets import known, opened, rows

pytestmark = pytest.mark.slow

BUCKET = "lake"
START_SECONDS = 60


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server, which has an empty bucket. The environment names it, as jobs expect it."""
    address = f"127.0.0.1:{free_port()}"
    host, _, port = address.partition(":")
    log = (tmp_path_factory.mktemp("s3") / "log").open("wb")
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", port]
    with log, subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent) as running:
        end = time.monotonic() + START_SECONDS
        while not _made_bucket(address):
            assert time.monotonic() < end, "the S3 server did not start"
            time.sleep(0.05)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
            patch.setenv("AWS_ALLOW_HTTP", "true")
            patch.setenv("AWS_REGION", "us-east-1")
            patch.setenv("AWS_ACCESS_KEY_ID", "key")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
            yield address
        running.kill()


def _made_bucket(address: str) -> bool:
    try:
        urlopen(Request(f"http://{address}/{BUCKET}", method="PUT")).close()
    except (URLError, ConnectionError):
        return False
    return True


def delta(where: Path, store: str) -> Any:
    pytest.importorskip("deltalake")
    return DeltaTarget(path=f"s3://{BUCKET}/{where.name}")


def iceberg(where: Path, store: str) -> Any:
    pytest.importorskip("pyiceberg")
    catalog = {
        "type": "sql", "uri": f"sqlite:///{where}/catalog.db", "warehouse": f"s3://{BUCKET}/{where.name}",
        "s3.endpoint": f"http://{store}", "s3.region": "us-east-1",
    }  # fmt: skip
    return IcebergTarget(table="shop.orders", catalog=catalog)


@pytest.mark.parametrize("kind", [delta, iceberg])
def test_a_table_has_each_batch_once(kind: Callable[[Path, str], Any], tmp_path: Path, store: str) -> None:
    target = kind(tmp_path, store)
    assert not is_there("t", target, OsDisk())
    writer = opened(target)
    assert is_there("t", target, OsDisk())
    assert writer.add("q", 0, rows("a", "b")) == 2
    writer.close()
    writer = opened(target)  # the next run, to which Spark gives the last batch again
    assert writer.has("q", 0) and not writer.has("q", 1)
    assert writer.add("q", 0, rows("a", "b")) == 0
    other = opened(target)
    assert other.add("p", 0, rows("c")) == 1
    assert writer.add("q", 1, rows("d")) == 1, "somebody else has written in between"
    assert (writer.others("q"), known(writer, "q", "c", "x")) == ({"p": 0}, ["c"])
    writer.finish()
    assert writer.rows() == other.rows() == 4
    writer.close()
    other.close()
