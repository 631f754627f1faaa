"""The files of docs/recipes.md: they name what there is. ``tests.examples.orchestrators`` runs those of Airflow and
Dagster."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gantrymq.cli.pipelines import app
from gantrymq.spark.pipelines.describe.job_file import read_job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = [EXAMPLES / "orchestrators" / name for name in ("airflow_dags.py", "dagster_definitions.py")]
STEP = EXAMPLES / "emr" / "backfill_step.sh"
WITH_COMMANDS = [*PROGRAMS, STEP]


def constants(file: Path) -> dict[str, Any]:
    """The names at the top of a program with a literal value, also of several in one line."""
    found: dict[str, Any] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            names = [name.id for name in node.targets[0].elts if isinstance(name, ast.Name)]
            found.update(zip(names, ast.literal_eval(node.value), strict=True))
    return found


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: file.stem)
def test_a_sensor_asks_for_the_group_and_the_topic_of_the_job(file: Path) -> None:
    source = read_job(str(EXAMPLES / "orchestrators" / "orders.toml"), environment={}).source
    assert constants(file) == {"GROUP": source["group"], "TOPIC": source["subscribe"]}


@pytest.mark.parametrize("file", WITH_COMMANDS, ids=lambda file: file.stem)
def test_a_backfill_has_these_options(file: Path) -> None:
    (options,) = [
        {name for one in command.params for name in one.opts}
        for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
        if name == "backfill"
    ]
    text = file.read_text()
    assert re.search(r"pipeline\"?,? \"?backfill", text)
    named = set(re.findall(r"(--(?:from|to|set|slice)\b)", text.replace("-- ", "")))
    assert {"--from", "--to"} <= named <= options


@pytest.mark.parametrize(("file", "package"), [(PROGRAMS[0], "airflow"), (PROGRAMS[1], "dagster")])
def test_a_program_is_what_the_scheduler_takes(file: Path, package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"python -m tests.examples.orchestrators {package} does more")
    runpy.run_path(str(file))


@pytest.mark.slow
def test_the_step_of_emr_downloads_its_job_and_runs_it_with_a_spark_of_its_own(tmp_path: Path) -> None:
    """Up to the first sentence of the command, which refuses a range that is not over: no Spark has to start."""
    (tmp_path / "gantry" / "bin").mkdir(parents=True)
    gantry = tmp_path / "gantry" / "bin" / "gantry"
    gantry.write_text(f'#!/bin/sh\nenv > {tmp_path}/seen\nexec {sys.executable} -m gantrymq.cli.main "$@"\n')
    gantry.chmod(0o755)
    (tmp_path / "aws").write_text('#!/bin/sh\ncp "$3" "$4"\n')
    (tmp_path / "aws").chmod(0o755)
    job = shutil.copy(EXAMPLES / "orchestrators" / "orders.toml", tmp_path / "given.toml")
    now = datetime.now(UTC)
    environment = {
        **os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": "/usr/lib/spark",
        "PYTHONPATH": "",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", str(STEP), str(job), "2026-01-31T08:00:00Z", now.isoformat()],
        env=environment, capture_output=True, text=True, cwd=EXAMPLES.parent / "src", check=False,
    )  # fmt: skip
    assert "the end of the time range (--to) must be a minute ago" in done.stderr.replace("\n", " "), done
    assert "SPARK_HOME" not in (tmp_path / "seen").read_text()


def test_the_description_of_the_step_calls_the_script() -> None:
    (step,) = json.loads((EXAMPLES / "emr" / "step.json").read_text())
    assert step["Jar"] == "command-runner.jar" and step["Args"][:2] == ["bash", "-c"]
    assert step["Args"][2].count(STEP.name) == 3
