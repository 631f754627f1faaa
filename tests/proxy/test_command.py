"""``gantry proxy`` as a process."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import grpc.aio
import pytest

from gantrymq.demo.ports import free_port
from gantrymq.grpc.definition_pb2 import Code
from tests.interop.ours import READY
from tests.interop.process import Process
from tests.support.grpc_client import GrpcClient, message

METRICS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def gantry(name: str, directory: Path, *words: str) -> Process:
    return Process(name, [sys.executable, "-m", "gantrymq.cli.main", *words], directory)


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


async def sent(port: int) -> int:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        return int((await GrpcClient(channel).send(message("orders"))).status.code)


@pytest.mark.slow
def test_it_serves_shows_metrics_and_health_and_stops(tmp_path: Path) -> None:
    names, listen, grpc_port, http = (free_port() for _ in range(4))
    server = gantry(
        "server", tmp_path, "server", "--store", "store", "--listen-port", str(listen), "--name-server-port", str(names)
    )
    proxy = gantry(
        "proxy", tmp_path, "proxy", "-n", f"127.0.0.1:{names}", "--grpc-port", str(grpc_port), "--bind", "127.0.0.1",
        "--http-port", str(http),
    )  # fmt: skip
    try:
        server.await_line(READY)
        gantry("topic", tmp_path, "topic", "create", "orders", "-n", f"127.0.0.1:{names}", "--yes").done()
        proxy.await_line(READY)
        proxy.await_that(lambda: healthy(http), "a broker")
        assert asyncio.run(sent(grpc_port)) == Code.OK
        shown = read(f"http://127.0.0.1:{http}/metrics")
        assert "rocketmq_proxy_up{node_id=" in shown and 'proxy_mode="cluster"' in shown
        assert 'request_code="send_message"' in shown
        names_shown = {line.split()[2] for line in shown.splitlines() if line.startswith("# TYPE")}
        page = METRICS_PAGE.read_text()
        assert [name for name in names_shown if f"`{name}" not in page] == []
        assert json.loads(read(f"http://127.0.0.1:{http}/alive"))["status"] == "ok"
        server.kill()
        proxy.await_that(lambda: not healthy(http), "no broker")
        proxy.stop()
    finally:
        proxy.kill()
        server.kill()


def healthy(port: int) -> bool:
    try:
        return bool(read(f"http://127.0.0.1:{port}/health"))
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "words"),
    [({"NAMESRV_ADDR": ""}, "--name-servers"), ({"NAMESRV_ADDR": "127.0.0.1:1", "GANTRY_ACCESS_KEY": "a"}, "users")],
)
def test_a_start_that_cannot_work_says_why(environment: dict[str, str], words: str, tmp_path: Path) -> None:
    started = Process("proxy", [sys.executable, "-m", "gantrymq.cli.main", "proxy", "--grpc-port", "0"], tmp_path,
                      environment)  # fmt: skip
    assert started.join() == 1
    assert words in started.err.read_text()
    assert "Traceback" not in started.err.read_text()
