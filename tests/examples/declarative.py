"""Runs examples/declarative_pipelines twice beside a real server, and checks what the second run added.

    python -m tests.examples.declarative [--keep DIRECTORY]

Needs `pip install 'gantrymq[spark-connect,pipelines]'`, and about a minute for each run on two cores.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from gantrymq import LocalTransactionState, Message, MessageView, Producer, PullConsumer, TransactionProducer
from gantrymq.spark.pipelines.ready_made.order_event import OrderPaid
from gantrymq.spark.pipelines.ready_made.replay_columns import OLD_ID
from gantrymq.spark.session.java import find_java
from tests.kill.server import Server

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "declarative_pipelines"
TOPIC, AGAIN = "orders-paid", "orders-again"
ORDERS = 20
"""The orders that are new in each round. Five of them are sent twice."""
REPEATED = 5
ROLLED_BACK = 3


class ByUser:
    """Commits every order, except those of the user who cannot pay."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.ROLLBACK if b"u-poor" in message.body else LocalTransactionState.COMMIT

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def send_round(name_servers: str, number: int) -> None:
    """New orders, some of them twice, some that are rolled back, and a message that is no order."""
    begin = number * ORDERS
    orders = [
        OrderPaid(f"o-{n:04}", f"u-{n % 7}", 100 * n + 99, 1_767_225_600_000 + n) for n in range(begin, begin + ORDERS)
    ]
    poor = [OrderPaid(f"r-{number}-{n}", "u-poor", 5, 1_767_225_600_000) for n in range(ROLLED_BACK)]
    with TransactionProducer("shop", name_servers=name_servers, listener=ByUser()) as producer:
        for order in [*orders, *orders[:REPEATED], *poor]:
            assert producer.send_in_transaction(order.message(TOPIC)).decided
    with Producer("other", name_servers=name_servers) as producer:
        producer.send(Message(TOPIC, b"no order"))


@dataclass(frozen=True)
class Project:
    """A copy of the example for one server."""

    directory: Path

    @classmethod
    def copy(cls, to: Path, name_servers: str) -> Project:
        shutil.copytree(EXAMPLE, to, ignore=shutil.ignore_patterns("__pycache__", "spark-warehouse", "metastore_db"))
        spec = to / "spark-pipeline.yml"
        text = spec.read_text().replace("127.0.0.1:9876", name_servers)
        text, count = re.subn(r"storage: \S+", f"storage: file://{to}/storage", text)
        assert count == 1
        spec.write_text(text)
        return cls(to)

    def run(self) -> float:
        """`spark-pipelines run`, as the README says. Returns the seconds that it took."""
        import pyspark

        paths = [str(EXAMPLE.parents[1] / "src"), *sys.path]
        environment = {
            **os.environ,
            "JAVA_HOME": find_java().home,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        program = str(Path(sys.executable).with_name("spark-pipelines"))
        begin = time.monotonic()
        done = subprocess.run(
            [program, "run", "--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.ui.enabled=false"],
            cwd=self.directory, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        (self.directory / "output.log").write_text(done.stdout + done.stderr)
        assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-80:])
        return time.monotonic() - begin

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table, read without Spark."""
        found = ds.dataset(self.directory / "spark-warehouse" / name, format="parquet", partitioning="hive")
        rows: list[dict[str, Any]] = found.to_table().to_pylist(maps_as_pydicts="strict")
        return rows

    def files(self, name: str) -> set[str]:
        return {str(path) for path in (self.directory / "spark-warehouse" / name).rglob("*.parquet")}


def check(project: Project, name_servers: str, rounds: int) -> None:
    """Everything is there once after so many rounds."""
    orders = {f"o-{n:04}": 1 for n in range(rounds * ORDERS)}
    for name in ("paid_orders", "shipping", "points", "cart"):
        assert Counter(row["order_id"] for row in project.table(name)) == orders, name
    assert [bytes(row["body"]) for row in project.table("rejected")] == [b"no order"] * rounds
    archived = project.table("archive")
    assert len(archived) == rounds * (ORDERS + REPEATED + 1)
    assert len({(row["broker_name"], row["queue_id"], row["queue_offset"]) for row in archived}) == len(archived)
    # Behind the topic of the replay are the transactions of the sink.
    windows = [row for row in project.table("lifecycle") if row["topic"] == TOPIC]
    sums = {name: sum(row[name] for row in windows) for name in ("transactions", "committed", "rolled_back", "open")}
    ended = rounds * (ORDERS + REPEATED)
    assert sums == {
        "transactions": ended + rounds * ROLLED_BACK,
        "committed": ended,
        "rolled_back": rounds * ROLLED_BACK,
        "open": 0,
    }
    ids = Counter(row["message_id"] for row in archived)
    assert Counter(replayed(name_servers)) == ids, "each archived message is in the other topic once"


def replayed(name_servers: str) -> list[str]:
    """The old ids of the messages that were replayed."""
    found: list[str] = []
    with PullConsumer(name_servers=name_servers) as consumer:
        for queue in consumer.queues(AGAIN):
            offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while offset < end:
                answer = consumer.pull(queue, offset, 1000)
                found += [message.properties[OLD_ID] for message in answer.messages]
                offset = answer.next_offset
    return found


def run_twice(directory: Path) -> list[float]:
    """Returns the seconds of each run. Raises AssertionError when a row is missing, doubled or read again."""
    server = Server(directory / "server", "ASYNC_FLUSH")
    server.start()
    try:
        project = Project.copy(directory / "project", server.name_servers)
        send_round(server.name_servers, 0)
        taken = [project.run()]
        check(project, server.name_servers, 1)
        incremental = ("paid_orders", "shipping", "archive", "half_messages", "op_messages")
        before = {name: project.files(name) for name in incremental}
        send_round(server.name_servers, 1)
        taken.append(project.run())
        check(project, server.name_servers, 2)
        for name, files in before.items():
            assert files < project.files(name), f"the second run only adds files to {name}"
        return taken
    finally:
        server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a new directory for everything, which is not removed")
    keep = parser.parse_args().keep
    if keep:
        keep.mkdir(parents=True)
        taken = run_twice(keep.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="gantry-declarative-") as scratch:
            taken = run_twice(Path(scratch))
    print("each row is there once; the runs took " + " and ".join(f"{seconds:.0f} s" for seconds in taken))


if __name__ == "__main__":
    main()
