"""Runs the recipes of examples/orchestrators with the real Airflow or Dagster, beside a real server.

    python3 -m venv /tmp/airflow && /tmp/airflow/bin/pip install apache-airflow .
    python -m tests.examples.orchestrators airflow --python /tmp/airflow/bin/python
    python3 -m venv /tmp/dagster && /tmp/dagster/bin/pip install dagster .
    python -m tests.examples.orchestrators dagster --python /tmp/dagster/bin/python

The server's clock is an hour behind, so what it stores belongs to an hour that is over. The hour is processed twice,
and its table must have each order once. The sensor must wait for the stream, and be content when the stream has run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds

from gantrymq import Admin, Message, Producer
from tests.kill.server import Server

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "orchestrators"
ORDERS: Final = 20
AFTER_THE_HOUR_S: Final = 130
"""The sensor of the Airflow recipe waits for two minutes behind the hour."""
LATE_CLOCK: Final = """\
from gantrymq.runtime.clock import SystemClock
wall_ms = SystemClock.wall_ms
SystemClock.wall_ms = lambda self: wall_ms(self) - 3_600_000
"""


class Recipes:
    """The files of the recipes in a directory of their own, and what they need of the environment."""

    def __init__(self, directory: Path, python: str, name_servers: str) -> None:
        self.directory = directory
        self.name_servers = name_servers
        self.python = python
        self.gantry = str(Path(sys.executable).with_name("gantry"))
        self.job = directory / "orders.toml"
        for file in EXAMPLE.iterdir():
            if file.is_file():
                shutil.copy(file, directory)
        self.hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)

    def run(self, *command: str, **more: str) -> str:
        """Run a command, and return what it printed. Raises RuntimeError when it fails."""
        environment = {
            **os.environ, "NAMESRV_ADDR": self.name_servers, "GANTRY": self.gantry, "ORDERS_JOB": str(self.job), **more,
        }  # fmt: skip
        done = subprocess.run(command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{said[-6000:]}")
        return said

    def stream(self) -> None:
        """What runs all the time elsewhere: here up to the end of the topic."""
        self.run(self.gantry, "pipeline", "run", str(self.job), "--until-end")

    def check_table(self) -> None:
        """Each order is in the table once."""
        found = ds.dataset(self.directory / "tables" / "orders", format="parquet").to_table().to_pylist()
        assert Counter(row["order_id"] for row in found) == {f"o-{n}": 1 for n in range(ORDERS)}, found


def airflow(recipes: Recipes) -> None:
    home = recipes.directory / "airflow"
    dags = home / "dags"
    dags.mkdir(parents=True)
    shutil.copy(recipes.directory / "airflow_dags.py", dags)
    settings = {
        "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
    }  # fmt: skip

    def command(*words: str) -> str:
        program = str(Path(recipes.python).with_name("airflow"))
        return recipes.run(program, *words, **settings)

    command("db", "migrate")
    command("dags", "reserialize")
    assert json.loads(command("dags", "list-import-errors", "-o", "json").splitlines()[-1]) == []
    # A run by hand is for the last hour that is over at its date.
    at = (recipes.hour + timedelta(hours=1)).isoformat()
    for _ in range(2):
        command("dags", "test", "orders_by_hour", at)
        recipes.check_table()
    recipes.stream()
    said = command("dags", "test", "report_by_hour", at)
    assert f"the hour from {recipes.hour} is in the tables" in said, said[-3000:]
    recipes.check_table()


def dagster(recipes: Recipes) -> None:
    hour = f"{recipes.hour:%Y-%m-%d-%H:%M}"
    settings = {"DAGSTER_HOME": str(recipes.directory), "FIRST_HOUR": hour}
    file = str(recipes.directory / "dagster_definitions.py")

    def command(*words: str) -> str:
        return recipes.run(recipes.python, "-m", "dagster", *words, **settings)

    (recipes.directory / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    command("definitions", "validate", "-f", file)
    for _ in range(2):
        command("asset", "materialize", "-f", file, "--select", "orders", "--partition", hour)
        recipes.check_table()
    said = command("sensor", "preview", "stream_has_read", "-f", file)
    assert f"orders-tables is {ORDERS} messages behind in orders-paid" in said, said
    recipes.stream()
    said = command("sensor", "preview", "stream_has_read", "-f", file)
    assert "run requests for 1 run" in said, said
    recipes.check_table()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.examples.orchestrators", description=__doc__)
    parser.add_argument("recipe", choices=("airflow", "dagster"))
    parser.add_argument("--python", required=True, help="of an environment with Airflow or Dagster, and this package")
    chosen = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "late").mkdir()
        (directory / "late" / "sitecustomize.py").write_text(LATE_CLOCK)
        paths = [str(directory / "late"), *filter(None, sys.path)]
        server = Server(directory / "server", "ASYNC_FLUSH")
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        try:
            server.start()
        finally:
            os.environ["PYTHONPATH"] = before
        try:
            with Admin(server.name_servers) as admin:
                admin.create_topic("orders-paid", 2)
            with Producer("shop", name_servers=server.name_servers) as producer:
                for number in range(ORDERS):
                    order = {"order_id": f"o-{number}", "user_id": "u", "amount_cents": 5, "paid_at_ms": 1}
                    producer.send(Message("orders-paid", json.dumps(order)))
            recipes = Recipes(directory, chosen.python, server.name_servers)
            {"airflow": airflow, "dagster": dagster}[chosen.recipe](recipes)
        finally:
            server.kill()
    print(f"{chosen.recipe}: each of {ORDERS} orders is in the table once, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
