"""The official Go client v2 on our server, and on Apache's as the control."""

from __future__ import annotations

import pytest

from gantrymq import Admin
from tests.interop.apache import ApacheCluster
from tests.interop.golang import GoClient
from tests.interop.jars import NotHere
from tests.interop.ours import GantryCluster
from tests.interop.process import Process, poll

ORDERED = [f"ordered {i}" for i in range(6)]
SYNC = [f"sync {i}" for i in range(10)]
ASYNC = [f"async {i}" for i in range(5)]
BATCH = [f"batch {i}" for i in range(3)]
EVERYTHING = sorted([*SYNC, *ORDERED, *ASYNC, *BATCH, "one-way", "delayed", "long " * 2000])


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> GoClient:
    try:
        return GoClient(tmp_path_factory.mktemp("go"))
    except NotHere as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["gantry", "apache_5"])
def server(request: pytest.FixtureRequest) -> GantryCluster | ApacheCluster:
    cluster = request.getfixturevalue(request.param)
    assert isinstance(cluster, GantryCluster | ApacheCluster)
    return cluster


def _bodies(driver: Process, who: str) -> list[str]:
    return [step["body"] for step in driver.steps("got") if step["who"] == who]


@pytest.mark.feature(
    "send: sync, async, one-way", "send: ordered", "send: batch", "send: delay level", "send: compressed"
)
@pytest.mark.feature(
    "push: concurrent", "push: orderly", "push: broadcast", "push: retry and dead letter", "filter: tags"
)
def test_sends_and_consumes(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    topic = "GoRound"
    with Admin(server.name_servers) as admin:
        admin.create_topic(topic, queues=4)
    sender = go.play("sends", server.name_servers, topic, "GoRound")
    sender.done()
    assert all(step["status"] for step in sender.steps("sent"))
    assert len({step["queue"] for step in sender.steps("sent") if step["what"] == "ordered"}) == 1
    reader = go.play("consumes", server.name_servers, topic, "GoRound")
    reader.await_step("ready")

    def complete() -> bool:
        return all(set(EVERYTHING) <= set(_bodies(reader, who)) for who in ("all", "orderly", "retry"))

    reader.await_that(complete, "all messages by all consumers")
    reader.await_that(lambda: len(_bodies(reader, "tag")) >= 6, "the messages with TagB")
    reader.write_line()
    reader.done()
    assert sorted(_bodies(reader, "all")) == EVERYTHING
    assert sorted(_bodies(reader, "tag")) == sorted(["batch 1", *SYNC[1::2]])
    assert [body for body in _bodies(reader, "orderly") if body in ORDERED] == ORDERED
    again = [step for step in reader.steps("got") if step["who"] == "retry" and step["body"] == "sync 3"]
    assert [step["times"] for step in again] == [1]
    assert {step["color"] for step in reader.steps("got")} == {"grün"}


@pytest.mark.feature("transaction: commit", "transaction: rollback", "transaction: unknown, then check")
def test_transactions(go: GoClient, gantry: GantryCluster) -> None:
    """Without a control: Apache's broker counts a check that reaches nobody (hole 10), and at an interval of one
    second its 15 checks are over before this client's first heartbeat, which comes after 30 s.
    """
    server = gantry
    topic = "GoTransactions"
    with Admin(server.name_servers) as admin:
        admin.create_topic(topic, queues=4)
    producer = go.play("transactions", server.name_servers, topic, "GoTransactionsP")
    reader = go.play("consumes", server.name_servers, topic, "GoTransactionsC")
    producer.await_step("ready")
    assert all(step["status"] for step in producer.steps("sent"))
    poll(lambda: len({step["key"] for step in producer.steps("check")}) == 2, "checks of both open transactions")
    reader.await_that(lambda: len(_bodies(reader, "all")) >= 2, "both committed messages")
    reader.write_line()
    producer.write_line()
    producer.done()
    reader.done()
    assert sorted(_bodies(reader, "all")) == ["commit", "unknown-then-commit"]


def test_administers(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    admin = go.play("administers", server.name_servers, "GoAdmin", "GoAdmin", server.broker_address)
    admin.done()
    assert [step["found"] for step in admin.steps("topics")] == [True]
    assert admin.steps("deleted")
