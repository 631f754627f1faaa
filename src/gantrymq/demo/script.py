"""The demo from beginning to end: one thread starts processes, checks them ten times a second, and kills some.

The stages are: server; orders (they are paid while Spark reads, and while producers and the broker are killed);
check_back (the open transactions are decided); tables (Spark reads the rest); reconcile. No process is left when
``DemoRun.run`` returns or raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gantrymq import PullConsumer
from gantrymq.demo import verify
from gantrymq.demo.decisions import CheckBacks, open_transactions
from gantrymq.demo.layout import BROKER_NAME, GROUP, TOPIC, Layout
from gantrymq.demo.order_database import Counts, OrderDatabase, transactions_of
from gantrymq.demo.orders import make_order
from gantrymq.demo.pace import Pace
from gantrymq.demo.plan import make_plan
from gantrymq.demo.ports import free_port
from gantrymq.demo.processes import DemoFailed, Watchdog
from gantrymq.demo.result import Result, Rows, Verdict
from gantrymq.demo.server import Outage, Server
from gantrymq.demo.shop import Shop
from gantrymq.demo.spark_job import DRAIN_SECONDS, RECONCILE_SECONDS, START_SECONDS, Reconcile, SparkJob, require_spark
from gantrymq.runtime.clock import SystemClock

STEP_SECONDS = 0.1
PATIENT_SECONDS = 60.0
"""After this long without any change, transactions that are open stay open, and messages that are missing, too."""
STALL_SECONDS = 180.0
"""After this long without any change the demo fails."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The settings of a run."""

    orders: int
    seed: int
    directory: Path
    spark: bool = True
    name_server_port: int | None = None
    broker_port: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The current numbers, for the progress bars."""

    counts: Counts
    checked: int
    """Transactions that a check-back decided."""
    delivered: int
    rows: Rows | None


class Show(Protocol):
    """Shows the progress to the user: as progress bars on a terminal, otherwise as lines."""

    def stage(self, name: str, text: str) -> None: ...

    def event(self, text: str) -> None: ...

    def progress(self, snapshot: Snapshot) -> None: ...


class DemoRun:
    """One run of the demo."""

    def __init__(self, settings: DemoSettings, show: Show) -> None:
        self._settings = settings
        self._show = show
        self._clock = SystemClock()
        self._plan = make_plan(settings.orders, settings.seed)
        self.layout = Layout(settings.directory)
        self._seconds: dict[str, float] = {}
        self._delivered = 0
        self._open = 0
        self._last_counts = Counts(0, 0)
        self._last_change = 0.0

    def run(self) -> Result:
        """Run all stages. Raises DemoFailed (or another GantryError) when one fails."""
        if self._settings.spark:
            require_spark()
        began = self._clock.monotonic()
        with ExitStack() as stack:
            watchdog = Watchdog()
            stack.callback(watchdog.close)
            self._prepare(watchdog)
            stack.callback(self._database.close)
            with self._stage("server", "starting the server and creating the topic"):
                stack.callback(self._end, self._server)
                self._server.start()
                self._server.wait_until_ready()
                self._server.create_topic()
                self._checks.start()
                stack.callback(self._checks.end)
            with self._stage("orders", f"paying {self._settings.orders} orders"):
                self._start_others(stack)
                self._pay_orders()
            with self._stage("check_back", "waiting until the broker has asked about every open transaction"):
                self._settle()
            if self._spark is not None:
                with self._stage("tables", "waiting for Spark to bring the tables up to date"):
                    self._drain(self._spark)
            tables = ", the topic and the tables" if self._spark is not None else " and the topic"
            with self._stage("reconcile", f"comparing the order database{tables}"):
                verdict = self._reconcile(watchdog)
            self._shop.check_kills()
            self._seconds["total"] = self._clock.monotonic() - began
            return self._result(verdict)

    def _prepare(self, watchdog: Watchdog) -> None:
        settings = self._settings
        name_server_port = settings.name_server_port or free_port()
        broker_port = settings.broker_port or free_port()
        self.layout.make(name_server_port, broker_port)
        self._database = OrderDatabase(self.layout.orders_db)
        self._database.create(make_order(number, settings.orders, settings.seed) for number in range(settings.orders))
        self._server = Server(self.layout, name_server_port, broker_port, watchdog)
        transactions_of(self.layout.orders_db, GROUP, self._server.name_servers, TOPIC).create_table()
        self._checks = CheckBacks(self._server.name_servers, BROKER_NAME)
        self._shop = Shop(self.layout, self._plan, settings.seed, self._server.name_servers, watchdog)
        self._spark = SparkJob(self.layout, self._server.name_servers, watchdog) if settings.spark else None

    @contextmanager
    def _stage(self, name: str, text: str) -> Iterator[None]:
        self._show.stage(name, text)
        started = self._last_change = self._clock.monotonic()
        yield
        self._seconds[name] = self._clock.monotonic() - started

    @staticmethod
    def _end(part: Server | Shop | SparkJob) -> None:
        part.end()

    def _start_others(self, stack: ExitStack) -> None:
        if self._spark is not None:
            self._spark.start()
            stack.callback(self._end, self._spark)
        stack.callback(self._end, self._shop)
        self._shop.start()

    def _look(self) -> Counts:
        """Check every process, update the numbers and show them."""
        self._clock.block(STEP_SECONDS)
        for news in self._shop.step():
            self._show.event(news)
        if self._spark is not None:
            self._spark.step()
        counts = self._database.counts()
        now = self._clock.monotonic()
        if counts != self._last_counts:
            self._last_counts, self._last_change = counts, now
        rows = self._spark.rows if self._spark is not None else None
        self._show.progress(Snapshot(counts, self._checks.count, self._delivered, rows))
        if now - self._last_change > STALL_SECONDS:
            raise DemoFailed(f"nothing has changed for {STALL_SECONDS:.0f} s; look into {self.layout.logs}")
        return counts

    def _pay_orders(self) -> None:
        """Let the order service pay at an even pace, and kill the broker once."""
        orders, spark = self._settings.orders, self._spark
        began = self._clock.monotonic()
        pace = Pace(orders, self._plan.half_way, began)
        outage = Outage(self._server, self._plan.broker_kill_at)
        waited = False
        while not self._shop.finished:
            counts = self._look()
            now = self._clock.monotonic()
            self._shop.raise_limit(pace.limit(now, beyond_half=spark is None or spark.batches > 0))
            if pace.waits and not waited:
                waited = True
                self._show.event("half of the orders are paid; Spark must be there before the rest follows")
            if pace.waits and now - began > START_SECONDS:
                raise DemoFailed(f"Spark wrote no batch within {START_SECONDS} s; look into {self.layout.logs}")
            if news := outage.step(now, counts.decided):
                self._show.event(news)
        if self._database.counts().decided != orders:
            raise DemoFailed(f"the order service ended with undecided orders; look into {self.layout.logs}")
        outage.finish()
        self._server.wait_until_ready()

    def _settle(self) -> None:
        """Wait until every transaction is decided, and each paid order is in the topic."""
        while True:
            counts = self._look()
            self._server.child.check_alive()
            still_open, delivered = len(open_transactions(self._server.name_servers)), self._count_delivered()
            if (still_open, delivered) != (self._open, self._delivered):
                self._open, self._delivered, self._last_change = still_open, delivered, self._clock.monotonic()
            if not still_open and delivered >= counts.paid:
                break
            if self._clock.monotonic() - self._last_change > PATIENT_SECONDS:
                self._show.event(
                    f"{still_open} transactions are open, {delivered} of {counts.paid} paid orders were delivered; "
                    "going on to name them"
                )
                break
        self._checks.update()

    def _count_delivered(self) -> int:
        """The number of messages in the topic."""
        with PullConsumer(None, name_servers=self._server.name_servers) as consumer:
            return sum(consumer.max_offset(queue) - consumer.min_offset(queue) for queue in consumer.queues(TOPIC))

    def _drain(self, spark: SparkJob) -> None:
        spark.ask_to_stop()
        deadline = self._clock.monotonic() + DRAIN_SECONDS
        while not spark.stopped:
            self._last_change = self._clock.monotonic()
            self._look()
            if self._clock.monotonic() > deadline:
                raise spark.child.failure(f"did not reach the end of the topic within {DRAIN_SECONDS} s")

    def _reconcile(self, watchdog: Watchdog) -> Verdict:
        if self._spark is None:
            return verify.compare(
                self._database.paid_orders(), verify.delivered_orders(self._server.name_servers, TOPIC)
            )
        self._spark.end()
        step = Reconcile(self.layout, self._server.name_servers, watchdog)
        try:
            deadline = self._clock.monotonic() + RECONCILE_SECONDS
            while step.child.exit_status is None:
                self._last_change = self._clock.monotonic()
                self._look()
                if self._clock.monotonic() > deadline:
                    raise step.child.failure(f"did not end within {RECONCILE_SECONDS} s")
            return step.verdict()
        finally:
            step.child.kill()

    def _result(self, verdict: Verdict) -> Result:
        counts = self._database.counts()
        found = verdict.missing + verdict.doubled + verdict.phantom + verdict.wrong
        rows = self._spark.rows if self._spark is not None else None
        return Result(
            ok=found == 0 and self._open == 0,
            orders=self._settings.orders,
            seed=self._settings.seed,
            paid=counts.paid,
            rolled_back=counts.rolled_back,
            decided_by_check_back=self._checks.count,
            open=self._open,
            delivered=self._delivered,
            rows=rows,
            missing=verdict.missing,
            doubled=verdict.doubled,
            phantom=verdict.phantom,
            wrong=verdict.wrong,
            delivered_twice=verdict.delivered_twice,
            compared_by=verdict.by,
            named=verdict.named,
            failed_sends=self._shop.failed_sends,
            broker_kills=self._server.kills,
            producer_kills=len(self._shop.kills),
            stages_seconds={name: round(seconds, 2) for name, seconds in self._seconds.items()},
            java=self._spark.java if self._spark is not None else None,
            dir=str(self._settings.directory),
            name_servers=self._server.name_servers,
        )
