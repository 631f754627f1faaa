"""Spark on a real ``gantry server``: only what was committed, and nothing lost or doubled when the server is killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, Producer, TransactionProducer
from gantrymq.errors import GantryError
from tests.kill.server import Server
from tests.spark.test_source import STEP_SECONDS, Collected, start

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.timeout(900)]

TOPIC = "Payments"


class ByKey:
    """Decides by the first letter of the body."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return {
            b"c": LocalTransactionState.COMMIT,
            b"r": LocalTransactionState.ROLLBACK,
            b"u": LocalTransactionState.UNKNOWN,
        }[message.body[:1]]

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "server", "SYNC_FLUSH")
    running.start()
    begin_topic(running)
    yield running
    running.kill()


def begin_topic(server: Server) -> None:
    """Make the topic by a first send. The port is open some moments before the broker is registered."""
    end = time.monotonic() + 30
    with Producer("first", name_servers=server.name_servers) as producer:
        while True:
            try:
                producer.send(Message(TOPIC, b"first"))
                return
            except GantryError:
                assert time.monotonic() < end, "no message could be sent"
                time.sleep(0.05)


def options(server: Server) -> dict[str, str]:
    return {"nameServers": server.name_servers, "subscribe": TOPIC}


def test_only_committed_messages_are_rows(spark: Any, server: Server) -> None:
    with TransactionProducer("payments", name_servers=server.name_servers, listener=ByKey()) as producer:
        for number in range(30):
            for kind in "cru":
                producer.send_in_transaction(Message(TOPIC, f"{kind}{number}", tags="pay", keys=f"k{number}"))
    rows = spark.read.format("rocketmq").options(**options(server)).load().collect()
    assert sorted(bytes(row["body"]).decode() for row in rows) == sorted(
        ["first", *(f"c{number}" for number in range(30))]
    )
    rows = [row for row in rows if row["tags"] == "pay"]
    assert {row["keys"] for row in rows} == {f"k{number}" for number in range(30)}
    assert len({row["message_id"] for row in rows}) == 30


def test_a_stream_over_kills_of_the_server(spark: Any, server: Server, tmp_path: Path) -> None:
    """SIGKILL under a running query, twice; what was acknowledged arrives, each place once."""
    acknowledged: list[tuple[int, int]] = []
    done = threading.Event()

    def send() -> None:
        with Producer("payments", name_servers=server.name_servers) as producer:
            while not done.is_set():
                try:
                    result = producer.send(Message(TOPIC, b"x" * 100))
                except GantryError:
                    done.wait(0.05)  # the server is away; nothing was promised
                    continue
                acknowledged.append((result.queue.queue_id, result.queue_offset))

    sink = Collected()
    frame = spark.readStream.format("rocketmq").options(**options(server), startingOffsets="earliest").load()
    query = start(frame, sink, tmp_path / "checkpoint")
    sender = threading.Thread(target=send)
    try:
        sink.wait_for(1)
        sender.start()
        for goal in (200, 600):
            sink.wait_for(goal)
            server.kill()
            server.start()
        sink.wait_for(1000)
        done.set()
        sender.join(STEP_SECONDS)
        assert not sender.is_alive()
        with sink.arrived:
            assert sink.arrived.wait_for(lambda: set(acknowledged) <= set(sink.rows), STEP_SECONDS)
        assert query.exception() is None
        assert len(sink.rows) == len(set(sink.rows)), "a place was delivered twice"
    finally:
        done.set()
        query.stop()
