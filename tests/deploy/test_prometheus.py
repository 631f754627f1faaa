"""The files for Prometheus and Grafana: they name metrics that exist, and alerts fire where they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gantrymq import LocalTransactionState, Message, TransactionProducer
from gantrymq.demo.ports import free_port
from tests.cli.test_serve import address, program, server
from tools import dashboard

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS, GRAFANA = ROOT / "deploy" / "prometheus", ROOT / "deploy" / "grafana"
NAME = re.compile(r"\b((?:rocketmq|gantry)_[a-z_]+?)(?:_bucket|_count|_sum)?\b")
"""Without what a histogram adds."""
DOCUMENTED = set(re.findall(r"(?m)^\| `((?:rocketmq|gantry)_[a-z_]+)`", (ROOT / "docs" / "metrics.md").read_text()))
DEADLINE_S = 60.0


def expressions() -> list[str]:
    rules = re.findall(r"(?m)^\s+expr: (.+)$", (PROMETHEUS / "alerts.yml").read_text())
    panels = json.loads((GRAFANA / "gantry.json").read_text())["panels"]
    return rules + [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_all_metrics_exist() -> None:
    found = expressions()
    assert len(found) > 30
    named = {name for expression in found for name in NAME.findall(expression)}
    assert named <= DOCUMENTED, named - DOCUMENTED


def test_the_dashboard_is_made_from_its_table() -> None:
    assert (GRAFANA / "gantry.json").read_text() == dashboard.text(), "run python3 tools/dashboard.py"


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; Debian's package is prometheus")
    return found


CHECKS = ("check rules alerts.yml", "test rules alerts_test.yml", "check config prometheus.yml")


@pytest.mark.parametrize("arguments", CHECKS)
def test_promtool_agrees(arguments: str) -> None:
    done = subprocess.run(
        [tool("promtool"), *arguments.split()], cwd=PROMETHEUS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Undecided:
    """A local transaction whose process ends before it says how it went."""

    def execute_local_transaction(self, message: Any, argument: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)["data"]


@contextmanager
def prometheus(
    directory: Path, target: str, login: str = "", shorter: Mapping[str, str] | None = None, every: str = "250ms"
) -> Iterator[str]:  # fmt: skip
    """A real one that reads brokers; every alert fires at once. Its address. ``login``: lines behind the job.
    ``shorter``: what else is replaced in the rules. ``every``: how often it looks."""
    alerts = re.sub(r"(?m)^\s+for: .*\n", "", (PROMETHEUS / "alerts.yml").read_text())
    for limit, less in (shorter or {}).items():
        assert limit in alerts
        alerts = alerts.replace(limit, less)
    (directory / "alerts.yml").write_text(alerts)
    config = (PROMETHEUS / "prometheus.yml").read_text().replace("127.0.0.1:8080", target).replace("5s", every) + login
    (directory / "prometheus.yml").write_text(config)
    port = free_port()
    command = [
        tool("prometheus"), f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def firing(url: str) -> set[str]:
    try:
        return {alert["labels"]["alertname"] for alert in asked(f"{url}/api/v1/alerts")["alerts"]}
    except OSError:
        return set()  # it has not started yet


@pytest.mark.slow
def test_an_alert_fires_when_nobody_can_decide_a_transaction(tmp_path: Path) -> None:
    tool("prometheus")
    http = free_port()
    with program(*server(tmp_path / "store", "--http-port", str(http))) as broker:
        name_server = address(broker.ready(), "name server")
        with TransactionProducer("orders", name_servers=name_server, listener=Undecided()) as producer:
            producer.send_in_transaction(Message("Orders", b"paid"))
        with prometheus(tmp_path, f"127.0.0.1:{http}") as url:
            deadline = time.monotonic() + DEADLINE_S
            while "TransactionsWithoutProducer" not in (found := firing(url)):
                assert time.monotonic() < deadline, f"firing: {found}"
                time.sleep(0.1)
            values = asked(f"{url}/api/v1/query?query=rocketmq_half_messages")["result"]
            assert [(value["metric"]["topic"], value["value"][1]) for value in values] == [("Orders", "1")]
            assert "BrokerGone" not in found
