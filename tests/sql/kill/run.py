"""Kill services, siblings, brokers and databases at every step, and compare rows with delivered messages.

``python -m tests.sql.kill.run --database postgresql --kills 2000 --seed 1``. Exit status 1 when they differ. With
``--inbox`` it kills consumers whose effects must happen once (``inbox_run``).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sqlalchemy import Engine, create_engine, text

from gantrymq import Message, MessageQueue, MessageView, Producer, PullConsumer
from tests.kill.server import Server
from tests.sql.kill import points
from tests.sql.kill.databases import KINDS, Database, missing
from tests.sql.kill.inbox_run import InboxRun
from tests.sql.kill.service import (
    COPIES,
    COUNTERS,
    CUSTOMERS,
    ORDERS,
    POINTS,
    SCHEMA,
    Setting,
    answer,
    fork,
    in_child,
    kill,
    serve,
)

AT_ONCE = 4
"""Services that live at the same time."""
ORDERS_EACH = 3
SETTLE_SECONDS = 120.0
QUIET_SECONDS = 3.0
GIVE_UP_SECONDS = 60.0
"""After that a service that should have died or ended counts as hanging."""


@dataclass(slots=True)
class Outcome:
    """What a run found."""

    database: str
    isolation: str | None
    seed: int
    kills: dict[str, int] = field(default_factory=dict)
    orders: int = 0
    paid: int = 0
    by_row: int = 0
    """Transactions whose messages went into the outbox."""
    delivered: int = 0
    ordered: int = 0
    """Messages with an ordering key."""
    settled_ms: dict[str, int] = field(default_factory=dict)
    """From the death of a process to the delivery of what it had committed: how many, and percentiles in ms."""
    violations: list[str] = field(default_factory=list)


class Run:
    """One run: a broker, a database, and processes that die."""

    def __init__(
        self, kind: str, isolation: str | None, seed: int, root: Path, say: Callable[[str], None],
        away: str = "refuse", ordered: bool = False,
    ) -> None:  # fmt: skip
        """``away``: ``when_broker_is_away`` of services and siblings. ``ordered``: messages have ordering keys."""
        self._points, self._sibling_points = points.SERVICE, points.SIBLING
        if away != "refuse":
            self._points, self._sibling_points = points.SERVICE_BY_ROW, points.SIBLING_BY_ROW
        if ordered:
            self._points, self._sibling_points = points.SERVICE_ORDERED, points.SIBLING_ORDERED
        self.outcome = Outcome(kind, isolation, seed)
        self._rng = random.Random(seed)
        self._say = say
        self._log = root / "services.log"
        self._server = Server(root, "SYNC_FLUSH")
        self._database: Database = KINDS[kind](root)
        self._setting = Setting(
            self._database.url, self._server.name_servers, isolation, self._log, away=away, ordered=ordered
        )
        self._steady = 0
        self._victims: dict[int, tuple[str, list[str]]] = {}
        self._siblings: set[int] = set()
        self._issued: list[str] = []
        self._died: dict[str, int] = {}
        """When the process of an order died, ms since 1970."""

    def run(self, kills: int, server_kills: int) -> Outcome:
        """``kills``: of services and siblings; ``server_kills``: of the broker, and of the database."""
        try:
            self._server.start()
            self._database.start()
            in_child(self._prepare, self._log)
            self._steady = fork(lambda: answer(self._setting, None), self._log)
            every = max(1, kills // max(1, server_kills))
            for number in range(kills):
                if server_kills and number % every == every - 1:
                    self._kill_a_server(number // every)
                self._one(number)
                if number % 100 == 99:
                    self._say(f"{number + 1} of {kills} kills")
            while self._victims:
                self._wait_for_one()
            self._settle()
        finally:
            for process in [self._steady, *self._victims, *self._siblings]:
                kill(process)
            self._server.kill()
            self._database.kill()
        return self.outcome

    def _prepare(self) -> None:
        """In a child, because it starts threads: the schema, our tables, the topics."""
        from gantrymq.sql import Transactions

        engine = create_engine(self._setting.url)
        with engine.begin() as connection:
            connection.exec_driver_sql(SCHEMA)
            connection.exec_driver_sql(COUNTERS)
            for customer in CUSTOMERS:
                connection.execute(text("INSERT INTO customers VALUES (:id, 0)"), {"id": customer})
        Transactions("none", engine, name_servers=self._setting.name_servers).create_table()
        with Producer("prepare", name_servers=self._setting.name_servers) as producer:
            for topic in COPIES:
                producer.send(Message(topic, "first"))

    def _one(self, number: int) -> None:
        while len(self._victims) >= AT_ONCE:
            self._wait_for_one()
        if number % 10 == 9:
            point = self._sibling_points[number // 10 % len(self._sibling_points)]
            self._siblings.add(fork(lambda: answer(self._setting, point), self._log))
            self._reap_siblings()
        point = self._points[number % len(self._points)]
        orders = [f"{number}-{index}" for index in range(self._rng.randrange(ORDERS_EACH))] + [f"{number}-last"]
        # The last one commits, or it would not reach the later points.
        orders = [f"{order}-declined" if self._rng.random() < 0.15 else order for order in orders[:-1]] + orders[-1:]
        seed = self._rng.randrange(2**32)
        self._issued += orders
        child = fork(lambda: serve(self._setting, orders, point, seed), self._log)
        self._victims[child] = point, orders

    def _reap_siblings(self) -> None:
        for process in list(self._siblings):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                self._siblings.discard(process)
                self._count("sibling", os.WIFSIGNALED(status))
        if len(self._siblings) > 2 * len(self._sibling_points):  # those that nobody asked
            process = self._siblings.pop()
            kill(process)
            self._count("sibling at rest")

    def _wait_for_one(self) -> None:
        begin = time.monotonic()
        while True:
            for process in list(self._victims):
                done, status = os.waitpid(process, os.WNOHANG)
                if done:
                    point, orders = self._victims.pop(process)
                    self._died[orders[-1]] = time.time_ns() // 1_000_000
                    self._count(point, os.WIFSIGNALED(status))
                    return
            if time.monotonic() - begin > GIVE_UP_SECONDS:
                process, (point, orders) = self._victims.popitem()
                kill(process)
                self.outcome.violations.append(f"a service that should die at {point} hangs with {orders}")
                return
            time.sleep(0.002)

    def _count(self, what: str, killed: bool = True) -> None:
        self.outcome.kills[what] = self.outcome.kills.get(what, 0) + killed

    def _kill_a_server(self, which: int) -> None:
        if which % 2:
            self._server.kill()
            self._server.start()
            self._count("broker")
        elif self.outcome.database != "sqlite":
            self._database.kill()
            self._database.start()
            self._count("database")

    # The comparison.

    def _settle(self) -> None:
        engine = create_engine(self._setting.url)
        with engine.connect() as connection:
            paid = {row[0] for row in connection.execute(text("SELECT id FROM orders"))}
            by_row = connection.execute(text("SELECT COUNT(*) FROM gantrymq_outcomes WHERE outcome = 3")).scalar_one()
        self.outcome.orders, self.outcome.paid, self.outcome.by_row = len(self._issued), len(paid), by_row
        with PullConsumer(name_servers=self._setting.name_servers) as consumer:
            got = _read(consumer, paid)
            if self._setting.ordered:
                self._check_order(engine, consumer)
            self.outcome.settled_ms = self._times(consumer)
            with engine.connect() as connection:
                left = connection.execute(text("SELECT COUNT(*) FROM gantrymq_outbox")).scalar_one()
            if left:
                self.outcome.violations.append(f"{left} rows are left in the outbox")
        engine.dispose()
        self.outcome.delivered = sum(sum(counts.values()) for counts in got.values())
        for order in sorted(paid | set(got[ORDERS]) | set().union(*got.values())):
            counts = {topic: got[topic][order] for topic in COPIES}
            wanted = COPIES if order in paid else dict.fromkeys(COPIES, 0)
            if counts != wanted:
                row = "is paid" if order in paid else "is not paid"
                self.outcome.violations.append(f"order {order} {row}; its messages: {counts}")

    def _check_order(self, engine: Engine, consumer: PullConsumer) -> None:
        """The messages of each customer are in one queue, in the order of the commits, each once."""
        with engine.connect() as connection:
            orders = {row[0]: row[1] for row in connection.execute(text("SELECT id, orders FROM customers"))}
        steps = {ORDERS: (0, 1), POINTS: (0,)}
        for topic in COPIES:
            found: dict[str, list[tuple[MessageQueue, int, int]]] = {}
            for message in _messages(consumer, topic):
                if "place" in message.properties:
                    customer, number, step = message.properties["place"].split()
                    found.setdefault(customer, []).append((message.queue, int(number), int(step)))
            for customer, count in orders.items():
                places = found.get(customer, [])
                wanted = [(number, step) for number in range(1, count + 1) for step in steps[topic]]
                self.outcome.ordered += len(places)
                if [place[1:] for place in places] != wanted or len({queue for queue, _, _ in places}) > 1:
                    self.outcome.violations.append(f"{customer} has {count} orders; its messages in {topic}: {places}")

    def _times(self, consumer: PullConsumer) -> dict[str, int]:
        after = []
        for message in _messages(consumer, POINTS):
            died = self._died.get(message.keys[0], 2**63) if message.keys else 2**63
            if message.store_timestamp > died:
                after.append(message.store_timestamp - died)
        after.sort()
        names = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "slowest": 1.0}
        return {"messages": len(after)} | {
            name: after[min(len(after) - 1, int(len(after) * share))] for name, share in names.items() if after
        }


def _read(consumer: PullConsumer, paid: set[str]) -> dict[str, Counter[str]]:
    """All messages by topic and order, once everything is there and nothing more comes."""
    end, quiet, before = time.monotonic() + SETTLE_SECONDS, time.monotonic(), -1
    wanted = len(paid) * sum(COPIES.values())
    while True:
        got: dict[str, Counter[str]] = {}
        for topic in COPIES:
            got[topic] = Counter(_orders(consumer, topic))
        count = sum(sum(counts.values()) for counts in got.values())
        now = time.monotonic()
        if count != before:
            before, quiet = count, now
        if now > end or (count >= wanted and now - quiet > QUIET_SECONDS):
            return got
        time.sleep(0.5)


def _orders(consumer: PullConsumer, topic: str) -> Iterator[str]:
    for message in _messages(consumer, topic):
        if message.keys:
            yield message.keys[0] if not message.body.endswith(b"never") else f"{message.keys[0]} (never)"


def _messages(consumer: PullConsumer, topic: str) -> Iterator[MessageView]:
    for queue in consumer.queues(topic):
        offset, last = consumer.min_offset(queue), consumer.max_offset(queue)
        while offset < last:
            result = consumer.pull(queue, offset, 256)
            yield from result.messages
            offset = result.next_offset


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=sorted(KINDS), default="postgresql")
    parser.add_argument("--inbox", action="store_true", help="kill consumers with an inbox, and no services")
    parser.add_argument("--away", choices=["refuse", "row", "always"], default="refuse", help="when_broker_is_away")
    parser.add_argument("--order", action="store_true", help="messages have ordering keys, and are judged by them")
    parser.add_argument("--isolation", help="isolation level of the service's transactions, e.g. SERIALIZABLE")
    parser.add_argument("--kills", type=int, default=2000, help="of services (siblings come on top)")
    parser.add_argument("--server-kills", type=int, default=60, help="of broker and database, by turns")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--dir", type=Path, help="keep all files here (default: a temporary directory)")
    options = parser.parse_args()
    if (reason := missing(options.database)) is not None:
        print(reason)
        return 2
    root = options.dir or Path(tempfile.mkdtemp(prefix="gantry-sql-kill-"))
    root.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}, {options.database}, {options.kills} kills, in {root}", flush=True)
    begin = time.monotonic()
    run: Run | InboxRun
    if options.inbox:
        run = InboxRun(options.database, options.seed, root, lambda line: print(line, flush=True))
    else:
        say = lambda line: print(line, flush=True)  # noqa: E731
        run = Run(options.database, options.isolation, options.seed, root, say, options.away, options.order)
    try:
        outcome = run.run(options.kills, options.server_kills)
    except KeyboardInterrupt:
        print("interrupted; all processes were killed", flush=True)
        return 130
    print(json.dumps(asdict(outcome), indent=2), f"\n{time.monotonic() - begin:.0f} s")
    if not outcome.violations and options.dir is None:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
