"""Our simple consumer against Apache's 5.5.0 and our server, and a 4.9 broker, which knows no POP.

It runs behind the tests of POP: what it leaves unacknowledged keeps the broker that all tests share busy.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

import gantrymq
from gantrymq import ConsumeFromWhere, MessageView
from gantrymq.errors import Closed, RequestRejected
from tests.interop.apache import ApacheCluster
from tests.interop.our_client import LIMIT_S, Server, make_topic, send_all, until
from tests.interop.ours import GantryCluster

FIRST = ConsumeFromWhere.FIRST_OFFSET
LONG_MS = 60_000


@pytest.fixture(params=["gantry", "apache_5"], ids=["gantrymq", "apache-5.5.0"])
def server(request: pytest.FixtureRequest) -> Server:
    cluster = request.getfixturevalue(request.param)
    assert isinstance(cluster, GantryCluster | ApacheCluster)
    return cluster


def consumer_of(server: Server, topic: str, **settings: object) -> gantrymq.SimpleConsumer:
    values: dict[str, object] = {"call_timeout_ms": 10_000, "await_duration_ms": 5_000, "from_where": FIRST, **settings}
    return gantrymq.SimpleConsumer(f"G{topic}", name_servers=server.name_servers, **values)  # type: ignore[arg-type]


def receive(consumer: gantrymq.SimpleConsumer, count: int, invisible_ms: int = LONG_MS) -> list[MessageView]:
    found: list[MessageView] = []
    end = time.monotonic() + LIMIT_S
    while len(found) < count:
        assert time.monotonic() < end, [view.body for view in found]
        found += consumer.receive(32, invisible_ms)
    return found


def bodies(found: list[MessageView]) -> list[str]:
    return sorted(view.body.decode() for view in found)


@pytest.mark.feature("simple consumer: receive, ack, change")
def test_received_acknowledged_given_back(server: Server) -> None:
    topic = make_topic(server, "OurSimple")
    send_all(server, topic, ["a", "b", "big" * 5_000])
    with consumer_of(server, topic).subscribe(topic) as consumer:
        found = receive(consumer, 3)
        assert bodies(found) == ["a", "b", "big" * 5_000]
        a, b, big = sorted(found, key=lambda view: view.body)
        consumer.ack(a)
        consumer.change_invisible_duration(b, 30_000)
        consumer.change_invisible_duration(big, 0)
        (again,) = receive(consumer, 1)
        assert (again.body, again.topic, again.reconsume_times) == (big.body, topic, 1)
        consumer.ack(again)
        consumer.change_invisible_duration(b, 1_000)
        (again,) = receive(consumer, 1, 2_000)
        assert (again.body, again.topic, again.reconsume_times) == (b.body, topic, 1)
        (again,) = receive(consumer, 1)
        assert (again.body, again.topic, again.reconsume_times) == (b.body, topic, 2)
        consumer.ack(again)
        consumer.ack(again)
        assert consumer.receive(32, LONG_MS) == []


@pytest.mark.feature("simple consumer: receive, ack, change")
def test_two_threads_wait_for_two_topics(server: Server) -> None:
    topics = [make_topic(server, name) for name in ("OurSimpleOne", "OurSimpleTwo")]
    consumer = consumer_of(server, topics[0], await_duration_ms=20_000).subscribe(topics[0]).subscribe(topics[1])
    found: list[MessageView] = []
    with consumer:
        send_all(server, topics[0], ["first"])
        consumer.ack(receive(consumer, 1)[0])

        def take() -> None:
            with suppress(Closed):  # one of them waits for more while the other one takes the last
                while len(found) < 20:
                    for view in consumer.receive(3, LONG_MS):
                        found.append(view)
                        consumer.ack(view)

        threads = [threading.Thread(target=take, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for topic in topics:
            send_all(server, topic, (f"{topic} {number}" for number in range(10)))
        until(lambda: len(found) >= 20, lambda: bodies(found))
    assert bodies(found) == sorted(f"{topic} {number}" for topic in topics for number in range(10))


@pytest.mark.feature("simple consumer: receive, ack, change")
def test_only_what_is_wanted_is_received(server: Server) -> None:
    topic = make_topic(server, "OurSimpleTags", 1)
    send_all(server, topic, ["1"], tags="A")
    send_all(server, topic, ["2"], tags="B")
    send_all(server, topic, ["3"], tags="C", properties={"price": "11"})
    send_all(server, topic, ["4"], tags="A", properties={"price": "9"})
    with consumer_of(server, topic).subscribe(topic, "A || B") as consumer:
        found = receive(consumer, 3)
        assert bodies(found) == ["1", "2", "4"]
        for view in found:
            consumer.ack(view)
    with consumer_of(server, topic + "Sql").subscribe(topic, sql="price > 10") as consumer:
        found = receive(consumer, 1)
        assert bodies(found) == ["3"]
        consumer.ack(found[0])
        assert consumer.receive(32, LONG_MS) == []


@pytest.mark.feature("simple consumer: in order")
def test_a_queue_is_received_in_order(server: Server) -> None:
    topic = make_topic(server, "OurSimpleOrder", 1)
    send_all(server, topic, ["1", "2", "3"])
    with consumer_of(server, topic, orderly=True).subscribe(topic) as consumer:
        (first,) = consumer.receive(1, 3_000)
        assert first.body == b"1"
        found = receive(consumer, 1)
        assert [view.body for view in found] == [b"1", b"2", b"3"], "the first one again, when its time is over"
        assert found[0].reconsume_times == 1
        for view in found:
            consumer.ack(view)
        assert consumer.receive(32, LONG_MS) == []


def test_a_broker_without_pop_refuses(apache_4: ApacheCluster) -> None:
    topic = make_topic(apache_4, "OurSimpleFour")
    with consumer_of(apache_4, topic).subscribe(topic) as consumer, pytest.raises(RequestRejected, match="200050"):
        consumer.receive(1, LONG_MS)
