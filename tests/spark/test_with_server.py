"""Spark on a real ``gantry server``: only what was committed, and nothing lost or doubled when the server is killed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq import LocalTransactionState, Message, MessageView, Producer, TransactionProducer, aio
from gantrymq.errors import GantryError
from tests.kill.server import Server
from tests.spark.test_data_source import STEP_SECONDS, Collected, start

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
    running = Server(tmp_path / "server", "SYNC_FLUSH", "enablePropertyFilter=true\n")
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


def test_the_broker_selects_by_tag_and_by_sql(spark: Any, server: Server) -> None:
    """``Aa`` and ``BB`` have the same hash, which is all that a broker compares."""
    with Producer("payments", name_servers=server.name_servers) as producer:
        for number, tag in enumerate(["Aa", "BB", "other"] * 20):
            producer.send(Message(TOPIC, f"{tag} {number}", tags=tag, properties={"amount": str(number)}))

    def bodies(**chosen: str) -> list[str]:
        frame = spark.read.format("rocketmq").options(**options(server), columns="body", **chosen).load()
        return sorted(bytes(row["body"]).decode() for row in frame.collect())

    every = [f"{tag} {number}" for number, tag in enumerate(["Aa", "BB", "other"] * 20)]
    assert bodies(subExpression="Aa") == sorted(body for body in every if body.startswith("Aa"))
    assert bodies(subExpression="Aa || other") == sorted(body for body in every if not body.startswith("BB"))
    sql = "amount > 49 AND TAGS = 'BB'"
    large = sorted(body for number, body in enumerate(every) if number > 49 and body.startswith("BB"))
    assert bodies(subExpression=sql, subExpressionType="SQL92") == large != []
    with pytest.raises(Exception, match=r"option subExpression: the broker .* at character 9") as raised:
        bodies(subExpression="amount >", subExpressionType="SQL92")
    assert "Traceback" not in str(raised.value)


def test_a_namespace_and_the_progress_of_a_group(spark: Any, server: Server, tmp_path: Path) -> None:
    """The query and its checkpoint use plain names; brokers know ``shop%Payments`` and ``shop%report``."""
    sent = 0
    with Producer("payments", name_servers=server.name_servers, namespace="shop") as producer:
        for sent in range(1, 31):
            producer.send(Message("Payments", f"in the shop {sent}"))
    given = {"nameServers": server.name_servers, "namespace": "shop", "startingOffsets": "earliest", "group": "report"}
    for selection in ({"subscribe": "Payments"}, {"subscribePattern": "Pay.*"}):
        sink = Collected()
        checkpoint = tmp_path / next(iter(selection))
        limits = {"maxOffsetsPerTrigger": "20", "maxBytesPerTrigger": "2k"}
        frame = spark.readStream.format("rocketmq").options(**given, **selection, **limits).load()
        assert start(frame, sink, checkpoint, availableNow=True).awaitTermination(STEP_SECONDS)
        assert len(sink.rows) == sent
        assert "shop%" not in (checkpoint / "offsets" / "0").read_text()
        assert len(list((checkpoint / "offsets").iterdir())) > 2, "2k are fewer than 20 messages"
    rows = spark.read.format("rocketmq").options(nameServers=server.name_servers, subscribe="shop%Payments").load()
    assert rows.count() == sent

    async def progress() -> Any:
        async with aio.Admin(server.name_servers) as admin:
            return await admin.consumers.progress("shop%report")

    shown = asyncio.run(progress())
    assert sum(at.consumer_offset for at in shown.queues) == sent and not any(at.lag for at in shown.queues)
