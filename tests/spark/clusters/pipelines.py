"""``gantry pipeline run`` of the job order-paid, on one machine, on clusters and through Spark Connect.

    python -m tests.spark.clusters.pipelines [WAY ...] [--orders 20000] [--batch 5000]

Each way has a topic of its own with the same orders, some of them twice and some messages that are none. The job runs
to the end of the topic, gets a second half of the orders, and runs again with the same checkpoint. Then each table must
have each order once. The executors of clusters have a Python that cannot see the files of the driver.

Of ten orders one is sent twice, and one message more is no order, so ``--orders 834000 --batch 100000`` reads 1,000,800
messages in batches of 100,000.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from gantrymq import Message, Producer
from gantrymq.admin.blocking import Admin
from gantrymq.spark.pipelines.order_paid import FILE, ORDER_TABLES
from tests.kill.server import Server
from tests.spark.clusters.connect_server import ConnectServer
from tests.spark.clusters.executor_pythons import ROOT, make_python
from tests.spark.clusters.standalone import Standalone

WAYS = ("local[2]", "local-cluster[2,1,1024]", "standalone", "connect")
BATCH = 5_000
"""The most messages of a batch of the job, unless the command line says otherwise."""
EVERY = 10
"""Of so many orders one is sent twice, and behind it comes a message that is no order."""
ON_A_CLUSTER = {"run.spark.spark.executor.memory": "512m", "run.spark.spark.executor.cores": "1"}


@contextmanager
def place_of(way: str, directory: Path) -> Iterator[dict[str, str]]:
    """The changes of the job with which it runs there."""
    if way.startswith("local["):
        yield {"run.master": way}
    elif way == "connect":
        with ConnectServer(directory) as server:
            yield {"run.master": server.master}
    else:
        python = {"run.python": make_python(directory / "python", with_package=True)}
        if way == "standalone":
            with Standalone(directory) as cluster:
                yield {"run.master": cluster.master, **python, **ON_A_CLUSTER}
        else:
            yield {"run.master": way, **python, **ON_A_CLUSTER}


def send(name_servers: str, topic: str, begin: int, end: int) -> int:
    """Send orders. Returns how many messages were none."""
    others = 0
    with Producer("orders", name_servers=name_servers) as producer:
        bodies = []
        for number in range(begin, end):
            order = {"order_id": f"o-{number}", "user_id": "u-1", "amount_cents": number, "paid_at_ms": number}
            bodies.append(json.dumps(order))
            if number % EVERY == 0:
                # A repeat of an order of long ago, too.
                bodies += [json.dumps({**order, "order_id": f"o-{number // 2}"}), "no order"]
                others += 1
        producer.send_batches(Message(topic, body) for body in bodies)
    return others


def run_job(name_servers: str, topic: str, directory: Path, place: dict[str, str], batch: int) -> None:
    """The command, to the end of the topic. ``batch``: the most messages of a batch. Raises RuntimeError with what it
    said."""
    changes = {
        "source.nameServers": name_servers, "source.subscribe": topic, "checkpoint": f"{directory}/checkpoint",
        "dead_letters.path": f"{directory}/rejected", "run.max_rows": str(batch), **place,
        **{f"targets.{name}.path": f"{directory}/{name}" for name in ORDER_TABLES},
    }  # fmt: skip
    command = [sys.executable, "-m", "gantrymq.cli.main", "pipeline", "run", FILE, "--until-end"]
    command += [text for key, value in changes.items() for text in ("--set", f"{key}={value}")]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, cwd=directory, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}")


def counts(directory: Path, orders: int, others: int) -> str:
    """What the tables have. ``right``: each order once, and each message that is none once."""
    wrong = []
    for name in ORDER_TABLES:
        found = Counter(pq.read_table(directory / name)["order_id"].to_pylist())
        if found != Counter(f"o-{number}" for number in range(orders)):
            wrong.append(f"{name} has {found.total()} rows of {len(found)} orders")
    rejected = pq.read_table(directory / "rejected").num_rows
    if rejected != others:
        wrong.append(f"rejected has {rejected} rows")
    return "; ".join(wrong) or f"right: {orders} orders in each of {len(ORDER_TABLES)} tables, {others} rejected"


def run_way(way: str, name_servers: str, directory: Path, orders: int, batch: int = BATCH) -> str:
    """Run the job twice, in batches of ``batch`` messages at most. Returns what the tables have."""
    directory.mkdir()
    topic = f"orders-{WAYS.index(way)}"
    with Admin(name_servers) as admin:
        admin.create_topic(topic, 4)
    with place_of(way, directory) as place:
        others = send(name_servers, topic, 0, orders // 2)
        run_job(name_servers, topic, directory, place, batch)
        others += send(name_servers, topic, orders // 2, orders)
        run_job(name_servers, topic, directory, place, batch)
    return counts(directory, orders, others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", help=f"default: {', '.join(WAYS)}")
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=BATCH, help="the most messages of a batch")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipelines-", ignore_cleanup_errors=True) as root:
        server = Server(Path(root, "server"), "ASYNC_FLUSH")
        server.start()
        try:
            for number, way in enumerate(chosen.ways or WAYS):
                begin = time.monotonic()
                found = run_way(way, server.name_servers, Path(root, str(number)), chosen.orders, chosen.batch)
                print(f"{way:26} {found}   {time.monotonic() - begin:.0f} s", flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
