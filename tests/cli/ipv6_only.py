"""A cluster on a machine that has no IPv4 at all. Run inside a namespace by ``test_ipv6.py``; prints what it found as
JSON."""

from __future__ import annotations

import json
import sqlite3
import sys
import urllib.request
from pathlib import Path
from typing import Any

from gantrymq import (
    ConsumeFromWhere,
    LocalTransactionState,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)
from gantrymq.cli.serving.broker import own_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.source.connections import OF_THIS_PROCESS
from gantrymq.spark.source.planning import Planner
from gantrymq.sql import Transactions
from tests.cli.test_serve import Program
from tests.cli.tool import Tool, eventually

TOPIC = "orders"


class Undecided:
    """Answers only when it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def execute_local_transaction(self, message: Any, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        self.asked += 1
        return LocalTransactionState.COMMIT


def main(place: Path) -> None:
    conf = place / "broker.conf"
    conf.write_text(
        "listenPort=10911\nhttpPort=8080\nhttpBindAddress=::\ntransactionTimeOut=100\ntransactionCheckInterval=200\n"
    )
    names = Program("nameserver", "--listen-port", "9876")
    broker = None
    try:
        names.ready()
        broker = Program(
            "broker", "-c", str(conf), "--store", str(place / "store"), "-n", "[::1]:9876", "--http-port", "8080"
        )
        said = broker.ready()
        print(json.dumps({"own": own_address(), "ready": said, **found(place, "[2001:db8::5]:9876")}))
    finally:
        for program in (broker, names):
            if program is not None:
                program.kill()


def found(place: Path, servers: str) -> dict[str, Any]:
    tool = Tool(servers, place / "audit.jsonl")
    tool.text("topic", "create", TOPIC)
    with Producer("senders", name_servers=servers) as producer:
        sent = producer.send(Message(TOPIC, "plain", keys=["k-1"]))
    listener = Undecided()
    with TransactionProducer("payers", name_servers=servers, listener=listener) as payer:
        payer.send_in_transaction(Message(TOPIC, "checked", keys=["k-2"]))
        eventually(lambda: bodies(servers) >= {"plain", "checked"})
    row = with_sql(place, servers)
    got: list[str] = []
    with PushConsumer(
        "readers",
        name_servers=servers,
        listener=lambda some: got.extend(m.body.decode() for m in some),
        from_where=ConsumeFromWhere.FIRST_OFFSET,
    ).subscribe(TOPIC) as consumer:
        eventually(lambda: len(got) == 3)
        client_id = consumer.client_id
        online = tool.json("consumer", "connections", "readers")
    shown = tool.json("message", "show", sent.offset_message_id)
    with urllib.request.urlopen("http://[::1]:8080/metrics") as answer:
        metrics = answer.status
    planner = Planner(SourceSettings(servers, topics=(TOPIC,)), OF_THIS_PROCESS, SystemClock(), SystemRng())
    return {
        "id": sent.offset_message_id, "shown": shown, "asked": listener.asked, "row": row, "got": sorted(got),
        "client": client_id, "online": online, "metrics": metrics, "console": console(servers, sent.offset_message_id),
        "brokers": tool.json("cluster", "list"), "queues": len(planner.queues()), "read": sorted(bodies(servers)),
    }  # fmt: skip


def with_sql(place: Path, servers: str) -> int:
    database = str(place / "rows.db")
    transactions = Transactions("bank", lambda: sqlite3.connect(database), name_servers=servers)
    transactions.create_table()
    with transactions, transactions.begin() as tx:
        tx.send(Message(TOPIC, "row"))
        tx.execute("CREATE TABLE paid (id)")
        tx.execute("INSERT INTO paid VALUES (1)")
    return int(sqlite3.connect(database).execute("SELECT count(*) FROM paid").fetchone()[0])


def bodies(servers: str) -> set[str]:
    with PullConsumer(name_servers=servers) as consumer:
        queues = consumer.queues(TOPIC)
        return {view.body.decode() for queue in queues for view in consumer.pull(queue, 0).messages}


def console(servers: str, message_id: str) -> bool:
    running = Program("console", "--host", "::1", "--port", "8085", "-n", servers)
    try:
        said = running.ready()
        assert said.startswith("http://[::1]:8085"), said
        with urllib.request.urlopen(f"http://[::1]:8085/messages?id={message_id}") as answer:
            return "plain" in answer.read().decode()
    finally:
        running.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
