"""The official Go client v2 on our server, and on Apache's as the control."""

from __future__ import annotations

import pytest

from gantrymq import Admin
from gantrymq.message.system_topics import retry_topic
from tests.interop.apache import ApacheCluster
from tests.interop.golang import GoClient
from tests.interop.jars import NotHere
from tests.interop.our_client import recorded
from tests.interop.ours import GantryCluster
from tests.interop.places import await_route
from tests.interop.process import Process, poll

ORDERED = [f"ordered {i}" for i in range(6)]
SYNC = [f"sync {i}" for i in range(10)]
ASYNC = [f"async {i}" for i in range(5)]
BATCH = [f"batch {i}" for i in range(3)]
EVERYTHING = sorted([*SYNC, *ORDERED, *ASYNC, *BATCH, "one-way", "delayed", "long " * 2000])
ROUNDS = 50
"""At most, until members of a group agree on their shares."""


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
    _create(server, topic, retry_topic("GoRound_ret"))
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
    """Without a control: Apache's broker counts a check that reaches nobody (hole 10), and most of its 15 are over
    before this client's first heartbeat, which comes after 30 s.
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


@pytest.mark.feature("send: request-reply")
def test_a_request_gets_its_reply(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    topic = "GoAsks"
    _create(server, topic)
    driver = go.play("asks", server.name_servers, topic, topic)
    driver.done()
    wanted = [f"answer to question {what}" for what in (0, 1, "async")]
    assert [step["body"] for step in driver.steps("reply")] == wanted
    assert [step["status"] for step in driver.steps("answered")] == [True] * 3
    assert [step["timeout"] for step in driver.steps("no reply")] == [True]


@pytest.mark.feature("send: too big is refused")
def test_a_body_that_is_too_big_is_refused(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    """By the broker: this client has no limit of its own. It goes on with the next message."""
    topic = "GoExceeds"
    _create(server, topic)
    driver = go.play("exceeds", server.name_servers, topic, topic)
    driver.done()
    assert [step["error"].split(",")[0] for step in driver.steps("refused")] == ["CODE: 13"]
    assert [step["status"] for step in driver.steps("sent")] == [True]


@pytest.mark.feature("transaction: producer killed, sibling checked")
def test_a_sibling_is_asked_about_the_half_of_a_killed_producer(
    go: GoClient, server: GantryCluster | ApacheCluster
) -> None:
    topic = "GoInherits"
    _create(server, topic)
    heir = go.play("inherits", server.name_servers, topic, topic)
    heir.await_step("ready")
    victim = go.play("leaves", server.name_servers, topic, topic)
    victim.await_step("left")
    victim.kill()
    heir.await_step("got", body="left behind")
    heir.write_line()
    heir.done()
    assert {step["key"] for step in heir.steps("check")} == {"left-then-commit"}
    assert not victim.steps("check")
    assert len(heir.steps("got")) == 1


@pytest.mark.feature("push: rebalance")
def test_members_share_the_queues_and_take_over(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    topic = "GoMembers"
    _create(server, topic)
    feeder = go.play("feeds", server.name_servers, topic, topic)
    first = go.play("belongs", server.name_servers, topic, topic)
    first.await_step("ready")
    _await_shares(feeder, "alone", {first: 4})
    second = go.play("belongs", server.name_servers, topic, topic)
    second.await_step("ready")
    _await_shares(feeder, "both", {first: 2, second: 2})
    second.kill()
    _await_shares(feeder, "left", {first: 4})
    feeder.write_line("end")
    feeder.done()
    first.write_line()
    first.done()


@pytest.mark.feature("filter: SQL92")
def test_sql92_selects(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    topic = "GoSelects"
    _create(server, topic, queues=1)
    driver = go.play("selects", server.name_servers, topic, topic)
    for who in ("early", "late"):
        driver.await_step("got", who=who, body="amount 7")
    driver.write_line()
    driver.done()
    assert sorted(_bodies(driver, "early")) == ["amount 3", "amount 5", "amount 7"]
    assert sorted(_bodies(driver, "late")) == ["amount 2", "amount 3", "amount 4", "amount 7"]


@pytest.mark.feature("pull: pull consumer")
def test_pulls_by_hand_and_polls(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    """Not the row "pull: lite pull, seek", which features.py sets apart: v2.1.2 has no lite pull consumer. ``Poll`` of
    its pull consumer reads what is assigned to it, and ``PullFrom`` any offset; but nothing moves where ``Poll`` is.
    """
    topic = "GoPulls"
    _create(server, topic)
    driver = go.play("pulls", server.name_servers, topic, topic)
    driver.done()
    for text in ("one", "two"):
        wanted = [f"{text} {queue}" for queue in range(4)]
        assert sorted(_bodies(driver, f"by hand {text}")) == wanted, "and nothing of the round before"
        assert sorted(_bodies(driver, f"polled {text}")) == wanted, "and nothing of the round before"
        assert _bodies(driver, f"again {text}") == ["one 2"]
    assert set(_bodies(driver, "in turn")) == {f"{text} {queue}" for text in ("one", "two") for queue in range(4)}


@pytest.mark.feature("message trace")
def test_traces_are_kept(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    topic = "GoTraced"
    _create(server, topic, f"{topic}Traces")
    driver = go.play("traces", server.name_servers, topic, topic)

    def kinds() -> dict[str, list[str]]:
        return {step["fields"][0]: step["fields"] for step in driver.steps("trace")}

    driver.await_that(lambda: {"Pub", "SubBefore", "SubAfter"} <= kinds().keys(), "traces of all kinds")
    driver.write_line()
    driver.done()
    message_id = driver.steps("sent")[0]["what"]
    assert all(message_id in fields for fields in kinds().values())
    assert kinds()["Pub"][4] == topic
    assert all({message_id, "traced"} <= set(step["keys"]) for step in driver.steps("trace"))
    steps = recorded(server, message_id, f"{topic}Traces")
    assert [(happened, good) for happened, _, good in steps] == [("sent", True), ("consumed", True)]


@pytest.mark.feature("namespace")
def test_a_namespace_is_on_its_own(go: GoClient, server: GantryCluster | ApacheCluster) -> None:
    spaces = ("north", "south")
    _create(server, *(retry_topic(f"{space}%GoSpaces") for space in spaces))
    driver = go.play("namespaces", server.name_servers, "GoSpaces", "GoSpaces")
    for space in spaces:
        driver.await_step("got", who=space, times=1)
        driver.await_step("got", who=f"raw {space}")
    driver.write_line()
    driver.done()
    for space in spaces:
        own = [step for step in driver.steps("got") if step["who"] == space]
        assert [(step["body"], step["times"]) for step in own] == [(f"for the {space}", 0), (f"for the {space}", 1)]
        raw = [step for step in driver.steps("got") if step["who"] == f"raw {space}"]
        assert [(step["body"], step["topic"]) for step in raw] == [(f"for the {space}", f"{space}%GoSpaces")]


def _create(server: GantryCluster | ApacheCluster, *topics: str, queues: int = 4) -> None:
    """Make topics. Of a group that retries the retry topic, too: brokers make it at the group's first heartbeat, and
    this client, which has asked for all routes by then, asks again after 30 s.
    """
    with Admin(server.name_servers) as admin:
        for topic in topics:
            admin.create_topic(topic, queues=queues)
    for topic in topics:
        await_route(server.name_servers, topic)


def _await_shares(feeder: Process, text: str, shares: dict[Process, int]) -> None:
    """Feed rounds until one is read by these members alone, each that many queues of its own."""
    for number in range(ROUNDS):
        text_of_round = f"{text}{number}"
        feeder.write_line(text_of_round)
        wanted = {f"{text_of_round} {queue}" for queue in range(4)}
        read: dict[Process, set[str]] = {}

        def all_read(wanted: set[str] = wanted, read: dict[Process, set[str]] = read) -> bool:
            read.update({member: wanted & set(_bodies(member, "member")) for member in shares})
            return set().union(*read.values()) == wanted

        poll(all_read, f"all of {text_of_round}")
        if {member: len(bodies) for member, bodies in read.items()} == shares:
            return
    raise AssertionError(f"{text}: no round was shared as {list(shares.values())}, the last one as {read}")
