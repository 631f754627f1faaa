"""What clients measure against a real broker, how a program reads it, and that the documentation says the same."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import gantrymq.metrics
from gantrymq.aio import (
    ConsumeFromWhere,
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    TransactionProducer,
)
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.metrics.declared import metrics_of
from gantrymq.client.metrics.registry import CLIENTS
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.observability.metrics import Histogram, Metric, MetricKind
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_response
from tests.client.peer import cluster, run, until
from tests.client.real import server

DOCS = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
FIRST = ConsumeFromWhere.FIRST_OFFSET


@pytest.fixture(autouse=True)
def from_zero() -> None:
    CLIENTS.forget()


def row(metric: Metric) -> str:
    """The line of the table in docs/metrics.md."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"


def value(name: str, *labels: str) -> Any:
    """Of a histogram: how many values it has."""
    found = metrics_of(CLIENTS).read(name).get(labels, 0)
    return sum(found.counts) if isinstance(found, Histogram) else found


def test_the_documentation_lists_what_is_declared() -> None:
    declared = metrics_of(CLIENTS).declared()
    section = DOCS.read_text("utf-8").split("\n## Your own process\n")[1].split("\n## ")[0]
    listed = re.findall(r"(?m)^\| `(?:rocketmq|gantry)_.*$", section)
    assert listed == [row(metric) for metric in declared], "\n".join(row(metric) for metric in declared)
    for metric in declared:
        assert re.fullmatch(r"(rocketmq|gantry)_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        assert metric.help.endswith(".") and metric.help[0].isupper(), metric.name


def test_sends_are_measured(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address, retries=1) as producer:
            await producer.send(Message("T", "1"))
            await producer.send_batch([Message("T", str(number)) for number in range(3)])
            with pytest.raises(GantryError):
                await producer.send(Message("T", "1"), MessageQueue("T", "broker-a", 99))
        assert value("gantry_client_messages_sent_total", "T", "PG") == 4
        assert value("rocketmq_send_cost_time", "T", "PG") == 2
        assert value("gantry_client_sends_failed_total", "T", "PG") == 1

    run(test)


def test_attempts_after_the_first_one_are_measured() -> None:
    async def test() -> None:
        async with cluster(brokers=2, topics={"T": 1}) as scripted:
            for broker in scripted.brokers:
                broker.next(
                    RequestCode.SEND_MESSAGE_V2, lambda _, command: encode_response(command, ResponseCode.SYSTEM_BUSY)
                )
            async with Producer("PG", name_servers=scripted.address, retries=2) as producer:
                await producer.send(Message("T", "1"))
        assert value("gantry_client_send_retries_total", "T", "PG") == 2
        assert value("gantry_client_sends_failed_total", "T", "PG") == 0
        assert value("rocketmq_send_cost_time", "T", "PG") == 1

    run(test)


class Listener:
    async def execute_local_transaction(self, message: Message, state: LocalTransactionState) -> LocalTransactionState:
        return state

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def test_transactions_are_measured(tmp_path: Path) -> None:
    async def test() -> None:
        quick = {"transaction_time_out": 100, "transaction_check_interval": 100}
        async with (
            server(tmp_path, **quick) as address,
            TransactionProducer("PG", name_servers=address, listener=Listener()) as producer,
        ):
            for state in LocalTransactionState:
                await producer.send_in_transaction(Message("T", state.name), state)
            await until(lambda: value("gantry_client_checks_answered_total", "PG", "commit") == 1)
        for state in ("commit", "rollback", "unknown"):
            assert value("gantry_client_transactions_ended_total", "T", "PG", state) == 1
        assert value("gantry_client_ends_unconfirmed_total", "T", "PG") == 0
        assert value("gantry_client_messages_sent_total", "T", "PG") == 3

    run(test)


def test_an_end_that_no_broker_confirmed_is_counted_once() -> None:
    async def test() -> None:
        async with cluster() as scripted:
            producer = TransactionProducer("PG", name_servers=scripted.address, listener=Listener(), end_retries=0)
            async with producer:
                half = await producer.begin(Message("T", "1"))
                busy = [lambda _, command: encode_response(command, ResponseCode.SYSTEM_BUSY)] * 2
                scripted.broker.next(RequestCode.END_TRANSACTION, *busy)
                outcome = ListenerAnswer(LocalTransactionState.ROLLBACK)
                assert not (await producer.finish(half, outcome)).decided
                await producer.finish_late(half, outcome)
        assert value("gantry_client_ends_unconfirmed_total", "T", "PG") == 1
        assert value("gantry_client_transactions_ended_total", "T", "PG", "rollback") == 1

    run(test)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("orderly", [False, True])
def test_consuming_is_measured(tmp_path: Path, asynchronous: bool, orderly: bool) -> None:
    async def test() -> None:
        seen: list[bytes] = []
        held = asyncio.Event()

        def listener(messages: list[MessageView]) -> None:
            seen.append(messages[0].body)
            if seen.count(b"fails") == 1 and messages[0].body == b"fails":
                raise ValueError("once")

        async def async_listener(messages: list[MessageView]) -> None:
            listener(messages)
            if messages[0].body == b"waits":
                await held.wait()

        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            consumer = PushConsumer(
                "CG", name_servers=address, listener=async_listener if asynchronous else listener, from_where=FIRST,
                orderly=orderly, suspend_ms=10, rebalance_interval_ms=100,
            )  # fmt: skip
            async with consumer.subscribe("T"):
                await producer.send(Message("T", "good"))
                await producer.send(Message("T", "fails"))
                await until(lambda: value("gantry_client_messages_failed_total", "T", "CG") == 1)
                await until(lambda: value("gantry_client_messages_consumed_total", "T", "CG") == 1 + orderly)
                assert value("gantry_client_messages_received_total", "T", "CG") == 2
                assert value("rocketmq_delivery_latency", "T", "CG") == 2
                assert value("rocketmq_await_time", "T", "CG") == 2 + orderly
                assert value("rocketmq_process_time", "T", "CG", "success") == 1 + orderly
                assert value("rocketmq_process_time", "T", "CG", "failure") == 1
                if asynchronous:
                    await producer.send(Message("T", "waits"))
                    await until(lambda: value("rocketmq_consumer_cached_messages", "T", "CG") == 1)
                    assert value("rocketmq_consumer_cached_bytes", "T", "CG") == len("waits")
                    assert value("gantry_client_lag_messages", "T", "CG") == 1
                    held.set()
                await until(lambda: value("gantry_client_lag_messages", "T", "CG") == 0)
                assert value("rocketmq_consumer_cached_messages", "T", "CG") == 0

    run(test)


def test_polling_is_measured(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            for _ in range(3):
                await producer.send(Message("T", "1"), MessageQueue("T", "broker-a", 0))
            consumer = LitePullConsumer("CG", name_servers=address, from_where=FIRST, poll_batch_size=2)
            async with consumer.subscribe("T"):
                await until(lambda: value("rocketmq_consumer_cached_messages", "T", "CG") == 3)
                assert value("gantry_client_messages_received_total", "T", "CG") == 3
                assert len(await consumer.poll()) == 2
                assert value("gantry_client_lag_messages", "T", "CG") == 3, "they count as consumed with the next poll"
                await consumer.poll()
                assert value("gantry_client_lag_messages", "T", "CG") == 1
            assert value("gantry_client_lag_messages", "T", "CG") == 0, "a closed client has no backlog"

    run(test)


# How a program reads them.


def test_the_text_is_prometheus_own() -> None:
    class Client:
        """Whatever has figures."""

    client = Client()
    CLIENTS.made(client, "PG").of_sends("T").cost_ms.observe(7)
    families = {
        family.name: family for family in text_string_to_metric_families(gantrymq.metrics.exposition().decode())
    }
    (sent,) = families["gantry_client_messages_sent"].samples
    assert sent.labels == {"topic": "T", "producer_group": "PG"} and sent.value == 1
    registry = CollectorRegistry()
    gantrymq.metrics.register(registry)
    assert b'gantry_client_messages_sent_total{producer_group="PG",topic="T"} 1.0' in generate_latest(registry)


def test_a_thread_serves_them() -> None:
    port = free_port()
    end = gantrymq.metrics.serve(port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"gantry_client_messages_sent_total" in answer.read()
    finally:
        end()


def test_an_asgi_app_mounts_them() -> None:
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    app = fastapi.FastAPI()
    app.mount("/metrics", gantrymq.metrics.app)
    with testclient.TestClient(app) as client:
        answer = client.get("/metrics")
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "rocketmq_process_time" in answer.text
        refused = client.post("/metrics")
        assert refused.status_code == 405 and refused.headers["allow"] == "GET, HEAD"
