"""Our push consumer against Apache's servers and ours: the same bodies of tests for each."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

import gantrymq
from gantrymq import ConsumeFromWhere, ConsumeStatus, Message, MessageQueue, MessageView, ReconsumeLater
from tests.interop.apache import ApacheCluster, JavaClient
from tests.interop.our_client import PATIENT, SOON, Inbox, Server, make_topic, send_all, until
from tests.interop.ours import GantryCluster

FIRST = ConsumeFromWhere.FIRST_OFFSET


def bodies(count: int, prefix: str = "m") -> list[str]:
    return [f"{prefix}{number:03}" for number in range(count)]


@pytest.mark.feature("push: concurrent", "filter: tags", "push: rebalance")
def test_two_members_share_and_tags_are_filtered(server: Server) -> None:
    topic = make_topic(server, "OurConcurrent")
    one, two = Inbox(), Inbox()
    wanted = "A || B"

    def member(inbox: Inbox) -> gantrymq.PushConsumer:
        consumer = gantrymq.PushConsumer(
            f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, **SOON
        )
        return consumer.subscribe(topic, wanted)

    with member(one) as first:
        for tag in "ABC":
            send_all(server, topic, bodies(20, tag), tags=tag)
        one.wait(bodies(20, "A") + bodies(20, "B"))
        assert not any(body.startswith("C") for body in one.bodies)
        with member(two) as second:
            until(lambda: len(_of(topic, first)) == 2 and len(_of(topic, second)) == 2, "two queues each")
            send_all(server, topic, bodies(40, "shared"), tags="A")
            until(lambda: set(bodies(40, "shared")) <= set(one.bodies + two.bodies))
            assert any(body.startswith("shared") for body in one.bodies)
            assert any(body.startswith("shared") for body in two.bodies)
        until(lambda: len(_of(topic, first)) == 4, "all queues again")


def _of(topic: str, consumer: gantrymq.PushConsumer) -> list[MessageQueue]:
    return [queue for queue in consumer.assigned if queue.topic == topic]


@pytest.mark.feature("push: orderly", "send: ordered")
def test_each_order_comes_in_its_order_over_failures_and_a_new_member(server: Server) -> None:
    topic = make_topic(server, "OurOrderly")
    failed: set[str] = set()

    def fail_once(view: MessageView) -> ConsumeStatus:
        body = view.body.decode()
        if body.endswith("/3") and body not in failed:
            failed.add(body)
            return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return ConsumeStatus.CONSUME_SUCCESS

    inbox = Inbox(fail_once)

    def member() -> gantrymq.PushConsumer:
        consumer = gantrymq.PushConsumer(
            f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, orderly=True,
            suspend_ms=100, lock_interval_ms=1_000, **SOON,
        )  # fmt: skip
        return consumer.subscribe(topic)

    with gantrymq.Producer(f"P{topic}", name_servers=server.name_servers, **PATIENT) as producer, member() as first:
        for step in range(8):
            for order in range(6):
                producer.send_ordered(Message(topic, f"o{order}/{step}"), f"order-{order}")
        inbox.wait(f"o{order}/{step}" for step in range(8) for order in range(6))
        with member() as second:
            until(lambda: len(_of(topic, first)) == 2 and len(_of(topic, second)) == 2, "two queues each")
            for step in range(8, 16):
                for order in range(6):
                    producer.send_ordered(Message(topic, f"o{order}/{step}"), f"order-{order}")
            inbox.wait(f"o{order}/{step}" for step in range(8, 16) for order in range(6))
    steps: dict[str, list[int]] = defaultdict(list)
    for body in inbox.bodies:
        order, _, step = body.partition("/")
        steps[order].append(int(step))
    assert len(failed) == 6
    for order, observed in steps.items():
        assert observed == [0, 1, 2, 3, *range(3, 16)], order


@pytest.mark.feature("push: orderly", "push: retry and dead letter")
def test_in_order_a_message_that_never_succeeds_becomes_a_dead_letter(server: Server) -> None:
    topic = make_topic(server, "OurPoison", 1)
    inbox = Inbox(lambda view: ConsumeStatus.RECONSUME_LATER if view.body == b"poison" else None)
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, orderly=True, suspend_ms=100,
        max_reconsume_times=2, **SOON,
    )  # fmt: skip
    with consumer.subscribe(topic):
        send_all(server, topic, ["before", "poison", "after"])
        inbox.wait(["before", "poison", "after"])
    assert inbox.bodies == ["before", "poison", "poison", "poison", "after"]
    assert [view.reconsume_times for view in _dead(server, f"G{topic}", 1)] == [3]


def _dead(server: Server, group: str, count: int) -> list[MessageView]:
    """The dead letters of a group."""
    found: list[MessageView] = []
    with gantrymq.PullConsumer("GOurUndertaker", name_servers=server.name_servers, call_timeout_ms=10_000) as reader:

        def look() -> bool:
            try:
                (queue,) = reader.queues(f"%DLQ%{group}")
            except gantrymq.GantryError:
                return False
            found[:] = reader.pull(queue, 0).messages
            return len(found) >= count

        until(look, f"{count} dead letters")
    return found


@pytest.mark.feature("push: retry and dead letter")
def test_failures_come_again_after_their_delay_and_end_as_dead_letters(server: Server) -> None:
    topic = make_topic(server, "OurRetry")

    def answer(view: MessageView) -> object:
        if view.body == b"twice" and view.reconsume_times:
            return ConsumeStatus.CONSUME_SUCCESS
        if view.body == b"never":
            return ReconsumeLater(delay_level=-1)
        if view.body == b"raises" and view.reconsume_times == 0:
            raise ValueError("not now")
        return ReconsumeLater(delay_level=1) if view.body != b"raises" else None

    inbox = Inbox(answer)
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, max_reconsume_times=1, **SOON
    )
    with consumer.subscribe(topic):
        send_all(server, topic, ["twice", "never", "raises", "often"], keys="k", properties={"colour": "red"})
        until(lambda: sorted(inbox.bodies) == ["never", *["often"] * 2, *["raises"] * 2, *["twice"] * 2], inbox.bodies)
    again = next(view for view in inbox.views if view.reconsume_times)
    assert again.topic == topic and again.properties["colour"] == "red" and again.keys == ["k"]
    assert sorted(view.body for view in _dead(server, f"G{topic}", 2)) == [b"never", b"often"]
    begun, repeated = (inbox.times[inbox.bodies.index("raises")], inbox.times[_last(inbox.bodies, "raises")])
    assert repeated - begun > 9  # level 3


def _last(items: list[str], item: str) -> int:
    return len(items) - 1 - items[::-1].index(item)


@pytest.mark.feature("push: broadcast")
def test_a_broadcast_reaches_every_member_and_goes_on_where_its_file_says(server: Server, tmp_path: Path) -> None:
    topic = make_topic(server, "OurBroadcast")

    def member(inbox: Inbox, name: str) -> gantrymq.PushConsumer:
        consumer = gantrymq.PushConsumer(
            f"G{topic}", name_servers=server.name_servers, listener=inbox, broadcasting=True, from_where=FIRST,
            offset_dir=str(tmp_path), instance_name=name, **SOON,
        )  # fmt: skip
        return consumer.subscribe(topic)

    one, two = Inbox(), Inbox(lambda view: ConsumeStatus.RECONSUME_LATER)
    with member(one, "one"), member(two, "two"):
        send_all(server, topic, bodies(20))
        one.wait(bodies(20))
        two.wait(bodies(20))
    send_all(server, topic, bodies(5, "later"))
    once_more = Inbox()
    with member(once_more, "one"):
        once_more.wait(bodies(5, "later"))
    assert sorted(once_more.bodies) == bodies(5, "later") and len(two.bodies) == 20
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("offsets.json"))
    assert files == [f"127.0.0.1@{name}/G{topic}/offsets.json" for name in ("one", "two")]
    assert re.fullmatch(r'\{"offsetTable":\{(\{"brokerName":[^{}]+\}:\d+,?)+\}\}', (tmp_path / files[0]).read_text())


@pytest.mark.feature("filter: SQL92")
def test_sql_expressions_are_evaluated_by_the_broker(server: Server) -> None:
    topic = make_topic(server, "OurSql")
    inbox = Inbox()
    with gantrymq.Producer(f"P{topic}", name_servers=server.name_servers, **PATIENT) as producer:
        for price in range(20):
            colour = "red" if price % 2 else "blue"
            producer.send(Message(topic, f"{price}", tags="T", properties={"price": str(price), "colour": colour}))
        consumer = gantrymq.PushConsumer(
            f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, **SOON
        )
        with consumer.subscribe(topic, sql="price >= 10 AND colour = 'red' AND TAGS IS NOT NULL"):
            inbox.wait(["11", "13", "15", "17", "19"])
            producer.send(Message(topic, "red", tags="T", properties={"price": "100", "colour": "red"}))
            inbox.wait(["red"])
    assert sorted(inbox.bodies) == ["11", "13", "15", "17", "19", "red"]
    bad = gantrymq.PushConsumer(f"G{topic}Bad", name_servers=server.name_servers, listener=inbox, **SOON)
    with pytest.raises(gantrymq.GantryError, match="SQL"):
        bad.subscribe(topic, sql="price >").start()


@pytest.mark.feature("push: offset reset")
def test_the_progress_of_a_group_that_is_online_is_set_back(server: Server, jdk: None, tmp_path: Path) -> None:
    topic = make_topic(server, "OurReset")
    tools = server if isinstance(server, ApacheCluster) else ApacheCluster("5.5.0", tmp_path)

    def mqadmin(command: str, *arguments: str) -> str:
        return tools.mqadmin(command, "-g", f"G{topic}", *arguments, name_servers=server.name_servers)

    inbox = Inbox()
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, persist_interval_ms=500,
        pull_suspend_ms=2_000, **SOON,
    )  # fmt: skip
    # Brokers 5.x set a group back when it pulls again: after the pull that waits for a message until its time is over.
    with consumer.subscribe(topic):
        send_all(server, topic, bodies(10))
        inbox.wait(bodies(10))
        status = mqadmin("consumerStatus", "-s", "false")
        assert consumer.client_id in status, status
        said = mqadmin("resetOffsetByTime", "-t", topic, "-s", "0", "-f", "true")
        until(lambda: len(inbox.bodies) >= 20, lambda: f"{len(inbox.bodies)} messages; {said}")
        assert sorted(inbox.bodies) == sorted(bodies(10) * 2)
        of_topic = () if server.version == "4.9.7" else ("-t", topic)
        place = inbox.views[0].offset_message_id
        direct = mqadmin("queryMsgById", "-i", place, "-d", consumer.client_id, *of_topic)
        assert "CR_SUCCESS" in direct, direct
        assert len(inbox.bodies) == 21


@pytest.mark.feature("mixed group")
def test_a_java_member_and_ours_share_one_group(server: Server, java_client: JavaClient) -> None:
    name = f"OurMixed{java_client.version.replace('.', '')}"
    topic = make_topic(server, name)
    inbox = Inbox()
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, **SOON
    )
    with consumer.subscribe(topic):
        driver = java_client.play("Member", server.name_servers, topic, f"G{topic}")
        driver.await_step("started")
        until(lambda: len(_of(topic, consumer)) == 2, "our half of the queues")
        send_all(server, topic, bodies(40))

        def observed() -> list[str]:
            return inbox.bodies + [step["body"] for step in driver.steps("got")]

        until(lambda: set(bodies(40)) <= set(observed()), lambda: json.dumps(sorted(set(bodies(40)) - set(observed()))))
        assert inbox.bodies and driver.steps("got")
        driver.write_line("end")
        driver.done()
        until(lambda: len(_of(topic, consumer)) == 4, "all queues again")


@pytest.mark.feature("mixed group", "push: orderly")
@pytest.mark.parametrize("java_client", ["5.5.0"], indirect=True, ids=["java-5.5.0"])
def test_the_queues_of_a_java_member_that_was_killed_go_on_in_order(
    gantry: GantryCluster, java_client: JavaClient
) -> None:
    """Both consume in order. Apache's broker lets go of the locks 60 s after their last renewal. Ours knows that the
    connection ended, and does so when Java's client hands out no message any more: 32 s after it. That is why this
    test takes so long, and runs with one client on our broker only."""
    server: Server = gantry
    name = f"OurKilled{java_client.version.replace('.', '')}"
    topic = make_topic(server, name)
    driver = java_client.play("Member", server.name_servers, topic, f"G{topic}", "orderly")
    driver.await_step("started")
    inbox = Inbox()
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, orderly=True, **SOON
    )
    with consumer.subscribe(topic):
        until(lambda: len(_of(topic, consumer)) == 2, "our half of the queues")
        send_all(server, topic, bodies(20, "before"))
        seen = set(bodies(20, "before"))
        until(lambda: seen <= {*inbox.bodies, *(step["body"] for step in driver.steps("got"))})
        assert driver.steps("got") and inbox.bodies
        driver.kill()
        send_all(server, topic, bodies(20, "behind"))
        until(lambda: set(bodies(20, "behind")) <= set(inbox.bodies), "the queues of the killed member")
    places: dict[int, list[int]] = defaultdict(list)
    for view in inbox.views:
        places[view.queue.queue_id].append(view.queue_offset)
    assert len(places) == 4 and all(offsets == sorted(offsets) for offsets in places.values())
