"""The commands ``gantry pipeline``, as far as they need no Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gantrymq.cli import pipeline_jobs, pipelines
from gantrymq.spark.source.connections import OF_THIS_PROCESS


@pytest.fixture(autouse=True)
def connections_are_closed() -> Iterator[None]:
    """A command leaves its connections to the end of its process, which is ours here."""
    yield
    OF_THIS_PROCESS.close()


def test_the_pipelines_are_offered() -> None:
    shown = CliRunner().invoke(pipelines.app, ["--help"])
    assert shown.exit_code == 0
    assert "order-paid" in shown.stdout and "reconcile" in shown.stdout


def test_what_cannot_be_compared_ends_with_status_2(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    arguments = ["reconcile", "--topic", "t", "--orders-db", f"{tmp_path}/nowhere", "--tables", str(tmp_path)]
    ended = CliRunner().invoke(pipelines.app, arguments)
    assert ended.exit_code == 2
    assert "there is no order database" in ended.output


def test_without_spark_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_jobs.importlib.util, "find_spec", lambda name: None)
    ended = CliRunner().invoke(pipelines.app, ["order-paid", "--topic", "t", "--out", "o", "--checkpoint", "c"])
    assert ended.exit_code == 2
    assert "gantrymq[spark]" in ended.output


ORDER_PAID = ["order-paid", "--topic", "t", "--out", "o", "--checkpoint", "c"]


@pytest.mark.slow
def test_the_name_servers_of_the_environment_are_asked_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    ended = CliRunner().invoke(pipelines.app, ORDER_PAID)
    assert ended.exit_code == 1
    assert "cannot reach 127.0.0.1:1" in " ".join(ended.output.split())
    assert len(ended.output.splitlines()) <= 3


@pytest.mark.parametrize("command", ["order-paid", "reconcile", "archive", "replay", "lifecycle"])
def test_each_pipeline_says_where_spark_runs(command: str) -> None:
    shown = CliRunner().invoke(pipelines.app, [command, "--help"], env={"COLUMNS": "200"}).stdout
    assert all(option in shown for option in ("--master", "--python", "--conf"))


def test_the_command_has_the_options_of_the_module() -> None:
    shown = CliRunner().invoke(pipelines.app, ["order-paid", "--help"], env={"COLUMNS": "200"}).stdout
    for option in ("--starting", "--read-timeout", "--conf", "--interval-ms", "--stop-file", "--until-end", "--master"):
        assert option in shown
    ended = CliRunner().invoke(pipelines.app, [*ORDER_PAID, "--conf", "no equals"])
    assert ended.exit_code == 2 and "spark.key=value" in ended.output


GOOD = """
name = "clicks"
checkpoint = "state"
source = { subscribe = "clicks" }
body = { schema = "id string" }
dead_letters = { type = "topic", topic = "rejected" }
targets.pages = { type = "parquet", path = "pages" }
"""


def test_a_job_file_is_checked_without_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "job.toml"
    file.write_text(GOOD)
    ended = CliRunner().invoke(pipelines.app, ["check", str(file), "--no-spark"])
    assert ended.exit_code == 0 and "nothing is wrong" in " ".join(ended.output.split())
    ended = CliRunner().invoke(pipelines.app, ["check", str(file), "--no-spark", "--set", "events.horizon=soon"])
    assert ended.exit_code == 2 and "events.horizon: 'soon' is not a time" in ended.output


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["--from", "yesterday", "--to", "5"], "--from yesterday is not a time"),
        (["--from", "2026-01-02", "--to", "2026-01-01"], "is not before"),
        (["--from", "1", "--to", "2", "--slice", "0s"], "--slice must be longer"),
        (["--from", "1", "--to", "2999-01-01"], "(--to) must be a minute ago"),
    ],
)
def test_a_time_range_that_is_none(tmp_path: Path, times: list[str], message: str) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "job.toml"
    file.write_text(GOOD)
    ended = CliRunner().invoke(pipelines.app, ["backfill", str(file), *times])
    assert ended.exit_code == 2 and message in ended.output
