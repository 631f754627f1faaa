"""An Apache broker and ours behind one name server, of each kind: clients and Spark use both and see no difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import gantrymq
from gantrymq import ConsumeFromWhere, LocalTransactionState, Message, MessageView
from tests.interop.apache import OPS_AT_ONCE, ApacheCluster, JavaClient
from tests.interop.conftest import FAST
from tests.interop.our_client import PATIENT, SOON, Inbox, until
from tests.interop.ours import GantryCluster

APACHE, OURS = "broker-apache", "broker-ours"
BOTH = {APACHE, OURS}
COUNT = 40
SETTINGS = {**FAST, "transactionTimeOut": "6000"}
APACHES = {**SETTINGS, **OPS_AT_ONCE}
"""5.5.0 would write down decisions once an interval: 3 s after a rollback, a half that may be checked after 2 s is
checked, and what is answered then counts a second time.
"""
KINDS = {"Apache 5.5.0": ("5.5.0", "5.5.0"), "Apache 4.9.7": ("4.9.7", "4.9.8"), "GantryMQ": ("5.5.0", "5.5.0")}
"""Kind of the name server to the version of Apache's broker and of the Java client."""


class Mixed:
    """A name server and two brokers."""

    def __init__(self, kind: str, factory: pytest.TempPathFactory) -> None:
        server, client = KINDS[kind]
        directory = factory.mktemp("mixed")
        self.version = server
        self.apache = ApacheCluster(server, directory / "apache")
        self.ours = GantryCluster(directory / "ours")
        self.java = JavaClient(client, directory)
        first: ApacheCluster | GantryCluster = self.ours if kind == "GantryMQ" else self.apache
        first.start_name_server()
        self.name_servers = first.name_servers
        self.apache.start_broker(name=APACHE, name_servers=self.name_servers, **APACHES)
        self.ours.start_broker(name=OURS, name_servers=self.name_servers, **SETTINGS)

    def make_topic(self, name: str) -> str:
        """Two queues on each broker."""
        with gantrymq.Admin(self.name_servers, call_timeout_ms=10_000) as admin:
            admin.create_topic(name, 2)
        return name

    def close(self) -> None:
        self.apache.close()
        self.ours.close()


def over(row: str) -> Any:
    """Every kind of name server, with its column in the table."""
    return pytest.mark.parametrize(
        "mixed",
        [pytest.param(kind, marks=pytest.mark.feature(row, column=f"name server {kind}")) for kind in KINDS],
        indirect=True,
    )


@pytest.fixture(scope="module")
def mixed(request: pytest.FixtureRequest, jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    cluster = Mixed(request.param, tmp_path_factory)
    yield cluster
    cluster.close()


@over("Java client over both")
def test_a_java_client_over_both(mixed: Mixed) -> None:
    driver = mixed.java.play("Spread", mixed.name_servers, mixed.make_topic("JavaBoth"), "GJavaBoth", COUNT)
    driver.join(300)
    sent = {step["what"]: step["broker"] for step in driver.steps("sent")}
    got = [(step["body"], step["broker"]) for step in driver.steps("got")]
    wanted = {body: broker for body, broker in sent.items() if not body.startswith("ROLLBACK")}
    assert sorted(got) == sorted(wanted.items()), "each once, from the broker that stored it"
    assert set(sent.values()) == BOTH
    plain = Counter(broker for body, broker in sent.items() if body.startswith("plain"))
    assert min(plain.values()) >= COUNT // 4
    assert {step["who"] for step in driver.steps("got")} == {"one", "two"}
    for state in ("COMMIT", "ROLLBACK", "UNKNOW"):
        assert {broker for body, broker in sent.items() if body.startswith(state)} == BOTH
    assert {step["body"] for step in driver.steps("check")} == {f"UNKNOW {number}" for number in range(4)}


@over("our client over both")
def test_our_client_over_both(mixed: Mixed) -> None:
    topic = mixed.make_topic("OursBoth")
    inboxes = Inbox(), Inbox()
    consumers = [
        gantrymq.PushConsumer(
            "GOursBoth", name_servers=mixed.name_servers, listener=inbox,
            from_where=ConsumeFromWhere.FIRST_OFFSET, instance_name=f"member{number}", **SOON,
        ).subscribe(topic)
        for number, inbox in enumerate(inboxes)
    ]  # fmt: skip
    sent: dict[str, str] = {}
    producer = gantrymq.Producer("POursBoth", name_servers=mixed.name_servers, **PATIENT)

    def both_have_some() -> bool:
        """Sends on until both members got messages: they share the queues out in the meantime."""
        for _ in range(COUNT):
            body = f"body {len(sent)}"
            sent[body] = producer.send(Message(topic, body)).queue.broker_name
        until(lambda: len(inboxes[0].views) + len(inboxes[1].views) >= len(sent))
        return bool(inboxes[0].views and inboxes[1].views)

    with consumers[0], consumers[1], producer:
        until(both_have_some)
    got = {view.body.decode(): view.queue.broker_name for inbox in inboxes for view in inbox.views}
    assert got == sent
    assert set(sent.values()) == BOTH


class Decided:
    """As the body says; what is unknown is committed when it is asked about."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState[message.body.decode().split()[0]]

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


@over("transactions over both")
def test_a_transaction_ends_on_the_broker_that_has_its_half(mixed: Mixed) -> None:
    topic = mixed.make_topic("TransactionsBoth")
    inbox = Inbox()
    consumer = gantrymq.PushConsumer(
        "GTransactionsBoth", name_servers=mixed.name_servers, listener=inbox,
        from_where=ConsumeFromWhere.FIRST_OFFSET, **SOON,
    )  # fmt: skip
    producer = gantrymq.TransactionProducer(
        "PTransactionsBoth", name_servers=mixed.name_servers, listener=Decided(), **PATIENT
    )
    half_on: dict[str, str] = {}
    with consumer.subscribe(topic), producer:
        for number in range(8):
            for state in ("COMMIT", "ROLLBACK", "UNKNOWN"):
                result = producer.send_in_transaction(Message(topic, f"{state} {number}"))
                assert result.decided == (state != "UNKNOWN"), result.decision_error
                half_on[f"{state} {number}"] = result.queue.broker_name
        wanted = {body: broker for body, broker in half_on.items() if not body.startswith("ROLLBACK")}
        inbox.wait(wanted, 120)
    assert {view.body.decode(): view.queue.broker_name for view in inbox.views} == wanted
    assert len(inbox.views) == len(wanted)
    for state in ("COMMIT", "ROLLBACK", "UNKNOWN"):
        assert {broker for body, broker in half_on.items() if body.startswith(state)} == BOTH


@pytest.mark.spark
@over("Spark source over both")
def test_spark_reads_both(mixed: Mixed, spark: Any) -> None:
    topic = mixed.make_topic("SparkBoth")
    with gantrymq.Producer("PSparkBoth", name_servers=mixed.name_servers, **PATIENT) as producer:
        sent = {f"body {number}": producer.send(Message(topic, f"body {number}")) for number in range(COUNT)}
    rows = spark.read.format("rocketmq").options(nameServers=mixed.name_servers, subscribe=topic).load().collect()
    got = sorted(
        (bytes(row["body"]).decode(), row["broker_name"], row["queue_id"], row["queue_offset"]) for row in rows
    )
    assert got == sorted(
        (body, result.queue.broker_name, result.queue.queue_id, result.queue_offset) for body, result in sent.items()
    )
    assert {row["broker_name"] for row in rows} == BOTH
