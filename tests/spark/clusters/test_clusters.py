"""The same reading program on ``local-cluster``, on a Standalone cluster and through Spark Connect.

The executors have Pythons that cannot see the files of the driver. The package reaches them in three ways.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from gantrymq.message.queues import MessageQueue
from tests.spark.clusters import pipelines
from tests.spark.clusters.executor_pythons import ROOT, make_python, packed
from tests.spark.clusters.other_machine import OtherMachine
from tests.spark.clusters.standalone import Standalone
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 300
TESTS = Path(__file__).resolve().parents[3]


@pytest.fixture
def name_servers() -> Iterator[str]:
    with LogServer(FakeBroker(answers_at_most=5000)) as server:
        for number in range(3):
            server.broker.fill(MessageQueue("orders", "broker-a", number), ROWS // 3)
        yield server.address


def drive(directory: Path, name_servers: str, way: str, master: str, python: str, **environment: str) -> object:
    """What the driver program counted, run in ``directory``."""
    command = [sys.executable, "-m", "tests.spark.clusters.driver", name_servers, way, master, python]
    paths = [str(ROOT), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    ended = subprocess.run(command, cwd=directory, env=surroundings, capture_output=True, text=True, check=False)
    said = [line for line in ended.stderr.splitlines() if not line.startswith("\tat ")]
    assert ended.returncode == 0, "\n".join(said[-60:])
    assert "BrokenPipeError" not in ended.stderr
    return json.loads(ended.stdout)


EVERYTHING = {
    "batch": ROWS, "stream": ROWS,
    "reasons": [
        None, "the condition cannot be computed", "the condition is null, so it does not hold",
        "the condition does not hold", "the condition does not hold",
    ],
}  # fmt: skip


@pytest.mark.clusters
@pytest.mark.timeout(900)
def test_a_shipped_archive_on_local_cluster(name_servers: str, tmp_path: Path) -> None:
    python = make_python(tmp_path / "bare", with_package=False)
    assert drive(tmp_path, name_servers, "zip", "local-cluster[1,1,512]", python) == EVERYTHING


@pytest.mark.clusters
@pytest.mark.timeout(900)
def test_an_installed_package_and_a_packed_environment_on_standalone(name_servers: str, tmp_path: Path) -> None:
    python = make_python(tmp_path / "own", with_package=True)
    make_python(tmp_path / "environment", with_package=True)  # unpacked for the driver, as docs/spark.md says
    archive = packed(tmp_path / "environment")
    with Standalone(tmp_path) as cluster:
        assert drive(tmp_path, name_servers, "installed", cluster.master, python) == EVERYTHING
        relative = "./environment/bin/python"
        assert drive(tmp_path, name_servers, "packed", cluster.master, relative, PACKED=archive) == EVERYTHING
        used = list(tmp_path.glob("worker-*/*/*/environment/packages/gantrymq"))
        assert used, "the executors unpacked the archive"


@pytest.mark.skipif(find_spec("grpc") is None, reason="pip install 'gantrymq[spark-connect]'")
def test_through_spark_connect(name_servers: str, tmp_path: Path) -> None:
    assert drive(tmp_path, name_servers, "connect", "local[2]", sys.executable) == EVERYTHING


@pytest.mark.clusters
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", pipelines.WAYS[1:])
def test_all_pipelines_by_command(way: str, tmp_path: Path) -> None:
    if way == "connect" and find_spec("grpc") is None:
        pytest.skip("pip install 'gantrymq[spark-connect]'")
    if way == pipelines.OTHER_MACHINE and not OtherMachine.possible():
        pytest.skip("needs root and the command ip")
    with pipelines.server_for([way], tmp_path / "server") as (server, machine):
        pipelines.run_way(way, server.name_servers, tmp_path / "job", 2000, machine=machine)
