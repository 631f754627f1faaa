"""One broker writes, another opens the same store and continues: ours, Apache's, ours again, Apache's again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster
from tests.interop.process import Process
from tests.interop.swap import CONF, SwapScenario

ROWS = ("messages and queries", "open and ended transactions", "consumer offsets", "delayed messages")


def _columns(version: str, *rows: str) -> list[pytest.MarkDecorator]:
    ways = (f"ours to Apache {version}", f"Apache {version} to ours")
    return [pytest.mark.feature(*rows, column=way) for way in ways]


@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize(
    ("version", "end"),
    [
        pytest.param(
            "5.5.0",
            Process.stop,
            marks=_columns("5.5.0", *ROWS, "timer messages", "there and back"),
            id="5.5.0-stopped",
        ),
        pytest.param("5.5.0", Process.kill, marks=_columns("5.5.0", "after SIGKILL"), id="5.5.0-killed"),
        pytest.param("4.9.7", Process.stop, marks=_columns("4.9.7", *ROWS, "there and back"), id="4.9.7-stopped"),
        pytest.param("4.9.7", Process.kill, marks=_columns("4.9.7", "after SIGKILL"), id="4.9.7-killed"),
    ],
)
def test_store_changes_hands(version: str, end: object, tmp_path: Path) -> None:
    ours = GantryCluster(tmp_path / "ours")
    apache = ApacheCluster(version, tmp_path / "apache")
    store = tmp_path / "store"
    scenario = SwapScenario(
        store, timers=version.startswith("5"), recalls=version.startswith("5") and end is Process.stop
    )
    try:
        ours.start_name_server()
        apache.name_servers = ours.name_servers
        way = (ours, apache, ours, apache) if end is Process.stop else (ours, apache)
        for number, cluster in enumerate(way):
            broker = cluster.start_broker(store, **CONF)
            if number:
                scenario.check(ours.name_servers)
            forgets = cluster is apache and end is Process.kill
            scenario.write(f"{number}-{cluster.kind}", ours.name_servers, forgets=forgets)
            assert callable(end)
            end(broker)
        ours.start_broker(store, **CONF)
        scenario.check(ours.name_servers)
        scenario.check_withdrawn(ours.name_servers)
    finally:
        apache.close()
        ours.close()
