"""The Spark processes of the demo: the order-paid job, and the reconcile step after it."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import msgspec

from gantrymq.demo.layout import TOPIC, Layout
from gantrymq.demo.processes import Child, DemoFailed, Watchdog
from gantrymq.demo.result import Rows, Verdict
from gantrymq.errors import ConfigError

START_SECONDS = 180
"""How long the first start may take on a slow machine with a cold file cache; it usually takes 10 to 20 s."""
END_SECONDS = 60
DRAIN_SECONDS = 600
RECONCILE_SECONDS = 900
RECONCILE_DISAGREES = 1
"""Exit status of reconcile when orders, topic and tables disagree."""
NAMED_LIMIT = 1_000
"""Orders of each kind that the result names; the report file of reconcile names all."""


def require_spark() -> None:
    """Raise ConfigError, which says what to install, when Spark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigError("the demo needs Spark; run: pip install 'gantrymq[spark]' (or try the demo with --no-spark)")


class SparkJob:
    """The order-paid pipeline."""

    def __init__(self, layout: Layout, name_servers: str, watchdog: Watchdog) -> None:
        self._layout = layout
        self._name_servers = name_servers
        self._watchdog = watchdog
        self._child: Child | None = None
        self._totals = dict.fromkeys(("shipping", "points", "cart"), 0)
        self.java: str | None = None
        self.batches = 0
        self.stopped = False

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "gantrymq.spark.pipelines.ready_made.order_paid",
            "--name-servers",
            self._name_servers,
        ]
        command += ["--topic", TOPIC, "--out", str(self._layout.tables), "--checkpoint", str(self._layout.checkpoint)]
        command += ["--stop-file", str(self._layout.stop_file)]
        self._child = Child("spark order-paid", command, self._layout.logs / "spark-order-paid.log", self._watchdog)

    @property
    def child(self) -> Child:
        if self._child is None:
            raise DemoFailed("the Spark job was not started")
        return self._child

    @property
    def rows(self) -> Rows:
        return Rows(**self._totals)

    def step(self) -> None:
        """Check the job. Raises DemoFailed when it failed or ended unexpectedly."""
        for event in self.child.events():
            self._follow(event)
        if not self.stopped and self.child.exit_status is not None:
            for event in self.child.events():  # the last events before it ended
                self._follow(event)
            if not self.stopped:
                self.child.check_alive()

    def _follow(self, event: dict[str, Any]) -> None:
        self.java = event.get("java", self.java)
        if event["event"] == "batch":
            self.batches += 1
            for table in self._totals:
                self._totals[table] += event["rows"].get(table, 0)
        elif event["event"] == "stopped":
            self._totals.update((table, event["rows"][table]) for table in self._totals)
            self.stopped = True
        elif event["event"] in ("failed", "error"):
            raise self.child.failure(str(event.get("error")))

    def ask_to_stop(self) -> None:
        """Let the job end when all messages that are in the topic now are in the tables."""
        self._layout.stop_file.write_text("stop\n")

    def end(self) -> None:
        self.child.end(END_SECONDS if self.stopped else 0)


class Reconcile:
    """The comparison of orders, topic and tables, in a process of its own."""

    def __init__(self, layout: Layout, name_servers: str, watchdog: Watchdog) -> None:
        self._layout = layout
        command = [
            sys.executable,
            "-m",
            "gantrymq.spark.pipelines.ready_made.reconcile",
            "--orders-db",
            str(layout.orders_db),
        ]
        command += ["--tables", str(layout.tables), "--name-servers", name_servers, "--topic", TOPIC]
        command += ["--json", str(layout.reconcile_json)]
        self.child = Child("spark reconcile", command, layout.logs / "spark-reconcile.log", watchdog)

    def verdict(self) -> Verdict:
        """The result of the comparison, when it has ended. Raises DemoFailed when it failed."""
        if self.child.exit_status not in (0, RECONCILE_DISAGREES) or not self._layout.reconcile_json.exists():
            raise self.child.failure(f"could not compare, exit status {self.child.exit_status}")
        report = msgspec.json.decode(self._layout.reconcile_json.read_bytes(), type=dict[str, Any])
        places = [report["topic"], *report["tables"].values()]
        kinds = ("missing", "doubled", "phantom", "wrong")
        named = {kind: sorted({order for place in places for order in place[kind]})[:NAMED_LIMIT] for kind in kinds}
        totals = {kind: report["totals"][kind] for kind in (*kinds, "delivered_twice")}
        return Verdict(by="spark reconcile", named=named, **totals)
