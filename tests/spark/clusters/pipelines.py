"""All pipelines by command, on one machine, on clusters and through Spark Connect.

    python -m tests.spark.clusters.pipelines [WAY ...] [--orders 20000] [--batch 5000]

Each way has a topic of its own with the same orders, some of them twice and some messages that are none:

* ``gantry pipeline run`` of the job order-paid goes to the end of the topic, and again with a second half of the orders
  and the same checkpoint. Each table must have each order once.
* ``reconcile`` must find nothing wrong, and all orders that were sent twice.
* ``archive`` writes the topic to Parquet: each message once.
* ``replay`` sends the archive to another topic, ``exactly_once``: the same bodies, each as often as before.
* ``lifecycle`` must count each message of that topic as a committed transaction.

The executors of clusters have a Python that cannot see the files of the driver. Of ten orders one is sent twice, and
one message more is no order, so ``--orders 834000 --batch 100000`` reads 1,000,800 messages in batches of 100,000.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gantrymq import Message, Producer, PullConsumer
from gantrymq.admin.blocking import Admin
from gantrymq.spark.columns.decode import Records
from gantrymq.spark.pipelines.ready_made.order_paid import FILE, ORDER_TABLES
from gantrymq.spark.source.reading import PULL_MAX_BYTES
from tests.kill.server import Server
from tests.spark.clusters.connect_server import ConnectServer
from tests.spark.clusters.executor_pythons import NO_OTHER, ROOT, make_python
from tests.spark.clusters.other_machine import OtherMachine
from tests.spark.clusters.standalone import Standalone

OTHER_MACHINE = "other-machine"
WAYS = ("local[2]", "local-cluster[2,1,1024]", "standalone", OTHER_MACHINE, "connect")
"""``other-machine``: a Standalone cluster whose workers are on a machine of their own, as far as the network tells."""
BATCH = 5_000
"""The most messages of a batch of the job, unless the command line says otherwise."""
EVERY = 10
"""Of so many orders one is sent twice, and behind it comes a message that is no order."""
QUEUES = 4
SMALL_EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.cores": "1", **NO_OTHER}


@dataclass(frozen=True)
class Place:
    """Where Spark runs."""

    master: str
    python: str | None = None
    conf: dict[str, str] = field(default_factory=dict)

    def options(self) -> list[str]:
        """For a pipeline with options of its own."""
        python = ["--python", self.python] if self.python else []
        conf = [text for key, value in self.conf.items() for text in ("--conf", f"{key}={value}")]
        return ["--master", self.master, *python, *conf]

    def changes(self) -> dict[str, str]:
        """For a job file."""
        python = {"run.python": self.python} if self.python else {}
        return {"run.master": self.master, **python, **{f"run.spark.{key}": self.conf[key] for key in self.conf}}


@contextmanager
def place_of(way: str, directory: Path, machine: OtherMachine | None) -> Iterator[Place]:
    """Start what the way needs."""
    if way.startswith("local["):
        yield Place(way)
    elif way == "connect":
        with ConnectServer(directory) as server:
            yield Place(server.master)
    else:
        python = make_python(directory / "python", with_package=True)
        if way in ("standalone", OTHER_MACHINE):
            with Standalone(directory, machine if way == OTHER_MACHINE else None) as cluster:
                yield Place(cluster.master, python, SMALL_EXECUTORS)
        else:
            yield Place(way, python, SMALL_EXECUTORS)


def order(number: int) -> dict[str, Any]:
    return {"order_id": f"o-{number}", "user_id": "u-1", "amount_cents": number, "paid_at_ms": number}


def send(name_servers: str, topic: str, begin: int, end: int) -> None:
    with Producer("orders", name_servers=name_servers) as producer:
        bodies = []
        for number in range(begin, end):
            bodies.append(json.dumps(order(number)))
            if number % EVERY == 0:
                # A repeat of an order of long ago, too.
                bodies += [json.dumps(order(number // 2)), "no order"]
        producer.send_batches(Message(topic, body) for body in bodies)


class Run:
    """The pipelines at one place, with one topic. Each method raises RuntimeError when something is not right."""

    def __init__(self, name_servers: str, topic: str, directory: Path, orders: int, batch: int, place: Place) -> None:
        self._servers = name_servers
        self._topic = topic
        self._again = f"{topic}-again"
        self._directory = directory
        self._orders = orders
        self._others = -(-orders // EVERY)
        self._batch = batch
        self._place = place

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for name, begin, end in (("first", 0, self._orders // 2), ("second", self._orders // 2, self._orders)):
            yield f"sending the {name} half", partial(send, self._servers, self._topic, begin, end)
            yield f"run, the {name} half", self.run_job
        yield "the tables", self.check_tables
        yield "reconcile", self.reconcile
        yield "archive", self.archive
        yield "replay", self.replay
        yield "lifecycle", self.lifecycle

    def _command(self, *words: str) -> None:
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NAMESRV_ADDR": self._servers}
        command = [sys.executable, "-m", "gantrymq.cli.main", "pipeline", *words]
        done = subprocess.run(
            command, cwd=self._directory, env=surroundings, capture_output=True, text=True, check=False
        )
        self._want(done.returncode == 0, f"{words[0]}: {done.stdout[-1000:]}\n{done.stderr[-3000:]}")

    def _want(self, good: bool, otherwise: str) -> None:
        if not good:
            raise RuntimeError(f"{self._place.master}: {otherwise}")

    def run_job(self) -> None:
        changes = {
            "source.nameServers": self._servers, "source.subscribe": self._topic,
            "checkpoint": f"{self._directory}/checkpoint", "dead_letters.path": f"{self._directory}/tables/rejected",
            "run.max_rows": str(self._batch), **self._place.changes(),
            **{f"targets.{name}.path": f"{self._directory}/tables/{name}" for name in ORDER_TABLES},
        }  # fmt: skip
        self._command("run", FILE, "--until-end", *(
            text for key, value in changes.items() for text in ("--set", f"{key}={value}")
        ))  # fmt: skip

    def check_tables(self) -> None:
        for name in ORDER_TABLES:
            rows = pq.read_table(self._directory / "tables" / name, columns=["order_id"])["order_id"]
            expected = pa.array([f"o-{number}" for number in range(self._orders)])
            self._want(alike(rows, expected), f"{name} has {len(rows)} rows of {len(pc.unique(rows))} orders")
        rejected = pq.read_table(self._directory / "tables" / "rejected").num_rows
        self._want(rejected == self._others, f"rejected has {rejected} rows")

    def reconcile(self) -> None:
        orders = pa.Table.from_pylist([{**order(number), "status": "PAID"} for number in range(self._orders)])
        pq.write_table(orders, self._directory / "orders.parquet")
        self._command("reconcile", "--topic", self._topic, "--orders-db", "orders.parquet", "--tables", "tables",
                      "--json", "report.json", *self._place.options())  # fmt: skip
        report = json.loads((self._directory / "report.json").read_text())
        totals = {"missing": 0, "doubled": 0, "phantom": 0, "wrong": 0}
        repeated = {**totals, "delivered_twice": len({number // 2 for number in range(0, self._orders, EVERY)})}
        self._want(report["totals"] == repeated, f"reconcile says {report['totals']}")
        self._want(len(report["unreadable"]) == self._others, f"{len(report['unreadable'])} are unreadable")

    def archive(self) -> None:
        self._command("archive", "--topic", self._topic, "--out", "archive", "--checkpoint", "archived",
                      "--until-end", *self._place.options())  # fmt: skip
        rows = self._archived("queue_id", "queue_offset")
        places = rows.group_by(["queue_id", "queue_offset"]).aggregate([])
        messages = self._orders + 2 * self._others
        self._want(len(rows) == len(places) == messages, f"the archive has {len(rows)} rows, {len(places)} messages")

    def replay(self) -> None:
        with Admin(self._servers) as admin:
            admin.create_topic(self._again, QUEUES)
        self._command("replay", "--archive", "archive", "--to-topic", self._again, "--checkpoint", "replayed",
                      *self._place.options())  # fmt: skip
        sent, archived = bodies_of(self._servers, self._again), self._archived("body")["body"]
        self._want(alike(sent, archived), f"{self._again} has {len(sent)} messages, the archive {len(archived)}")

    def lifecycle(self) -> None:
        self._command("lifecycle", "--json", "windows.json", *self._place.options())
        windows = json.loads((self._directory / "windows.json").read_text())
        ours = [window for window in windows if window["topic"] == self._again]
        counts = {name: sum(window[name] for window in ours) for name in ("transactions", "committed", "open")}
        messages = self._orders + 2 * self._others
        self._want(counts == {"transactions": messages, "committed": messages, "open": 0}, f"lifecycle: {counts}")

    def _archived(self, *columns: str) -> pa.Table:
        return pq.read_table(self._directory / "archive", columns=list(columns))


def alike(first: Any, second: Any) -> bool:
    """Whether both have the same values, each as often."""
    counts = [
        pa.table({"value": values}).group_by("value").aggregate([([], "count_all")]) for values in (first, second)
    ]
    both = counts[0].join(counts[1], ["value", "count_all"], join_type="full outer")
    return len(counts[0]) == len(counts[1]) == len(both)


def bodies_of(name_servers: str, topic: str) -> pa.ChunkedArray:
    """The bodies of all messages of a topic."""
    found = []
    with PullConsumer(name_servers=name_servers) as consumer:
        for queue in consumer.queues(topic):
            at, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while at < end:
                answer = consumer.pull_raw(queue, at, max_count=10_000, max_bytes=PULL_MAX_BYTES)
                found.append(Records.scan(answer.data).batch(("body",), topic, "").column("body"))
                at = answer.next_offset
    return pa.chunked_array(found, pa.binary())


@contextmanager
def server_for(ways: Sequence[str], directory: Path) -> Iterator[tuple[Server, OtherMachine | None]]:
    """A broker and a name server that all ways reach, and the other machine, if one of them needs it."""
    with ExitStack() as stack:
        machine = stack.enter_context(OtherMachine()) if OTHER_MACHINE in ways else None
        server = Server(directory, "ASYNC_FLUSH", host=machine.here if machine else "127.0.0.1")
        server.start()
        stack.callback(server.kill)
        yield server, machine


def run_way(
    way: str, name_servers: str, directory: Path, orders: int, batch: int = BATCH,
    machine: OtherMachine | None = None, tell: Callable[[str], None] = lambda text: None,
) -> None:  # fmt: skip
    """Run all pipelines, in batches of ``batch`` messages at most. ``tell`` is told of each step. Raises RuntimeError
    when something is not right."""
    directory.mkdir()
    topic = f"orders-{WAYS.index(way)}"
    with Admin(name_servers) as admin:
        admin.create_topic(topic, QUEUES)
    with place_of(way, directory, machine) as place:
        for name, step in Run(name_servers, topic, directory, orders, batch, place).steps():
            begin = time.monotonic()
            step()
            tell(f"{way:26} {name:24} {time.monotonic() - begin:6.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    possible = [way for way in WAYS if way != OTHER_MACHINE or OtherMachine.possible()]
    parser.add_argument("ways", nargs="*", help=f"default: {', '.join(possible)}")
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=BATCH, help="the most messages of a batch")
    chosen = parser.parse_args()
    ways = chosen.ways or possible
    if unknown := set(ways) - set(possible):
        parser.error(f"{', '.join(sorted(unknown))} is not possible; there are {', '.join(possible)}")
    with (
        tempfile.TemporaryDirectory(prefix="pipelines-", ignore_cleanup_errors=True) as root,
        server_for(ways, Path(root, "server")) as (server, machine),
    ):
        for number, way in enumerate(ways):
            run_way(
                way, server.name_servers, Path(root, str(number)), chosen.orders, chosen.batch, machine,
                lambda text: print(text, flush=True),
            )  # fmt: skip
            print(f"{way:26} right: all tables, the archive and the replayed topic", flush=True)


if __name__ == "__main__":
    main()
