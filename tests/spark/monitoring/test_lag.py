from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gantrymq.cli import pipelines
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.monitoring.lag import Lag, lag_of
from gantrymq.spark.monitoring.status import DIRECTORY_VARIABLE, QueryStatus, StatusFiles

NOW_MS = 1_767_225_600_000


def offset(*ends: int, **more: Any) -> dict[str, Any]:
    positions = {"orders": {"b": {str(number): end for number, end in enumerate(ends)}}}
    return {"version": 1, "positions": positions, "base": {}, **more}


def source(end: Any, latest: Any) -> dict[str, Any]:
    return {"description": "a Java object", "endOffset": end, "latestOffset": latest}


def test_rows_seconds_and_state() -> None:
    operators = [{"numRowsTotal": 5, "memoryUsedBytes": 700}, {"numRowsTotal": 1, "memoryUsedBytes": 1}]
    progress = {
        "sources": [source(offset(5, 9), offset(7, 9, 3, oldest_unread_ms=NOW_MS - 2500))], "stateOperators": operators,
    }  # fmt: skip
    assert lag_of(progress, NOW_MS) == Lag(2, 2.5, 6, 701)
    texts = {"sources": [source(json.dumps(offset(5)), json.dumps(offset(5, oldest_unread_ms=None)))]}
    assert lag_of(texts, NOW_MS) == Lag(0, 0.0, 0, 0)
    assert lag_of({"sources": [source(offset(5), offset(7, oldest_unread_ms=None))]}, NOW_MS).seconds_behind is None


@pytest.mark.parametrize("other", [None, "7", "no json", {"orders": {"0": 5}}, 12, offset(1)])
def test_other_sources_are_not_behind(other: Any) -> None:
    assert lag_of({"sources": [source(other, other), source(None, other)]}, NOW_MS).rows_behind == 0


def status(**more: Any) -> QueryStatus:
    return QueryStatus(
        **{
            "id": "1-2", "name": "orders", "state": "running", "at_ms": SystemClock().wall_ms(),
            "process": os.getpid(), "batch": 7, "rows_behind": 1234, "seconds_behind": 5.25, "state_rows": 9,
            "state_bytes": 2_500_000, **more,
        }
    )  # fmt: skip


def test_the_command_shows_what_queries_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "status"))
    shown = CliRunner().invoke(pipelines.app, ["status"])
    assert shown.exit_code == 0 and "no query has written its status" in shown.stdout
    files = StatusFiles(str(tmp_path / "status"), OsDisk())
    files.write(status())
    files.write(status(id="3", name=None, state="failed", error="no such topic"))
    files.write(status(id="4", name="a killed one", process=2**22 + 1))
    (tmp_path / "status" / "other.query.json").write_text("{}")
    shown = CliRunner().invoke(pipelines.app, ["status", "--json"])
    found = {row["id"]: row for row in json.loads(shown.stdout)}
    assert {key: row["state"] for key, row in found.items()} == {"1-2": "running", "3": "failed", "4": "gone"}
    assert (found["1-2"]["rows_behind"], found["1-2"]["seconds_behind"], found["1-2"]["state_mb"]) == (1234, 5.2, 2.5)
    table = CliRunner().invoke(pipelines.app, ["status", "--dir", str(tmp_path / "status")]).stdout
    assert "ROWS BEHIND" in table and "1234" in table and "no such topic" in table
