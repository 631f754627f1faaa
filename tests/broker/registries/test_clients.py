"""Live producers, consumers and locks, without a network."""

from __future__ import annotations

from dataclasses import replace

from gantrymq.broker.registries.clients import ConsumerGroups, Member, ProducerGroups
from gantrymq.broker.registries.queue_locks import LOCK_SECONDS, TRUSTED_SECONDS, QueueLocks
from gantrymq.message.heartbeat import ConsumerData, SubscriptionData
from gantrymq.message.queues import MessageQueue
from gantrymq.message.tags import java_hash
from tests.support.connections import KeptConnection


def member(number: int, heard_at: float = 0.0) -> Member:
    return Member(KeptConnection(number), f"client-{number}", "JAVA", 513, heard_at)


def consumer(*topics: str, expression: str = "*", version: int = 1) -> ConsumerData:
    return ConsumerData(
        group_name="G",
        subscription_data_set=[SubscriptionData.of_tags(topic, expression, version) for topic in topics],
    )


def test_producers_are_picked_in_turn_and_only_those_that_can_be_reached() -> None:
    groups = ProducerGroups()
    members = [member(number) for number in range(3)]
    for each in members:
        groups.register("G", each)
    assert [groups.pick("G") for _ in range(4)] == [members[i].connection for i in (0, 1, 2, 0)]
    members[0].connection.alive = False
    members[1].connection.writable = False
    assert {groups.pick("G") for _ in range(4)} == {members[2].connection}
    members[2].connection.alive = False
    assert groups.pick("G") is None
    assert groups.pick("H") is None
    assert len(groups.members("G")) == 3


def test_who_asks_again_gets_another_member_whoever_asks_in_between() -> None:
    groups = ProducerGroups()
    members = [member(number) for number in range(2)]
    for each in members:
        groups.register("G", each)
    asked = [[groups.pick("G", half + times) for half in range(4)] for times in range(2)]
    assert all(first is not second for first, second in zip(*asked, strict=True))
    assert {*asked[0]} == {each.connection for each in members}


def test_a_group_has_a_producer_while_a_member_that_is_no_tool_is_connected() -> None:
    groups = ProducerGroups()
    groups.register("G", replace(member(1), client_id="host@1#operator"))
    assert not groups.has_producer("G") and not groups.has_producer("H")
    producer = member(2)
    groups.register("G", producer)
    assert groups.has_producer("G")
    producer.connection.alive = False
    assert not groups.has_producer("G")


def test_the_tool_of_an_operator_is_of_the_group_and_is_asked_nothing() -> None:
    groups = ProducerGroups()
    came: list[str] = []
    groups.joined.append(came.append)
    tool = replace(member(1), client_id="host@1#operator")
    groups.register("G", tool)
    assert groups.is_member("G", tool.connection) and groups.pick("G") is None and not came
    groups.register("G", member(2))
    assert groups.pick("G") is not tool.connection and came == ["G"]


def test_producers_leave_in_order_by_hanging_up_and_by_silence() -> None:
    groups = ProducerGroups()
    one, two, three = member(1), member(2), member(3, heard_at=50)
    for each in (one, two, three):
        groups.register("G", each)
    groups.register("H", one)
    groups.unregister("G", one.connection)
    assert groups.connection_closed(two.connection) == ["G"]
    groups.expire(before=50)
    assert [each.client_id for each in groups.members("G")] == ["client-3"]
    assert groups.groups() == ["G"]
    groups.expire(before=51)
    assert groups.groups() == []


def test_a_group_changes_with_members_and_topics_but_not_with_versions() -> None:
    groups = ConsumerGroups()
    one, two = member(1), member(2)
    assert groups.register(consumer("T"), one)
    assert not groups.register(consumer("T"), one)
    assert not groups.register(consumer("T", version=2), one)
    assert groups.register(consumer("T"), two)
    assert groups.register(consumer("T", "U"), one)
    assert groups.register(consumer("T"), one), "a topic was given up"
    assert groups.client_ids("G") == ["client-1", "client-2"]
    assert groups.groups_reading("T") == ["G"]


def test_the_newest_subscription_counts() -> None:
    groups = ConsumerGroups()
    groups.register(consumer("T", expression="A", version=5), member(1))
    groups.register(consumer("T", expression="B", version=4), member(2))
    group = groups.get("G")
    assert group is not None
    assert group.subscriptions["T"].selection.tag_codes == frozenset({java_hash("A")})
    groups.register(consumer("T", version=6), member(2))
    assert group.subscriptions["T"].selection.tag_codes is None


def test_one_client_on_two_connections_is_one_client() -> None:
    groups = ConsumerGroups()
    first, second = member(1), member(2)
    second.client_id = first.client_id
    groups.register(consumer("T"), first)
    groups.register(consumer("T"), second)
    assert groups.client_ids("G") == ["client-1"]
    groups.connection_closed(first.connection)
    assert groups.client_ids("G") == ["client-1"]


def test_silent_consumers_are_taken_out() -> None:
    groups = ConsumerGroups()
    groups.register(consumer("T"), member(1, heard_at=0))
    groups.register(consumer("T"), member(2, heard_at=100))
    assert groups.expire(before=50) == ["G"]
    assert groups.client_ids("G") == ["client-2"]
    assert groups.expire(before=50) == []
    assert not groups.unregister("nobody", member(9).connection)


def test_locks_of_a_holder_that_is_gone_end_when_it_hands_out_nothing_any_more() -> None:
    locks = QueueLocks()
    queues = [MessageQueue("T", "b", number) for number in range(2)]
    locks.lock("G", "ours", queues[:1], 0.0, ends_with_connection=True)
    locks.lock("G", "java", queues[1:], 0.0)
    assert locks.holder_gone("G", "ours", 10.0, 5.0) == [15.0]
    assert locks.holder_gone("G", "java", 10.0, 5.0) == [TRUSTED_SECONDS], "it goes on for 30 s behind a renewal"
    assert locks.lock("G", "new", queues, 14.9) == [] and not locks.has_ended("G", "ours", 14.9)
    assert locks.has_ended("G", "ours", 15.0)
    assert locks.lock("G", "new", queues, 15.0) == queues[:1]
    assert locks.lock("G", "java", queues, 20.0) == queues[1:], "it came back and renewed"
    assert locks.lock("G", "new", queues[1:], 20.0 + LOCK_SECONDS - 1) == []


def test_locks_end_with_their_time() -> None:
    locks = QueueLocks()
    queues = [MessageQueue("T", "b", number) for number in range(2)]
    assert locks.lock("G", "one", queues, 0.0) == queues
    assert locks.lock("G", "two", queues, LOCK_SECONDS - 1) == []
    assert locks.lock("H", "two", queues, 1.0) == queues, "another group has its own locks"
    locks.unlock("G", "two", queues)
    assert locks.lock("G", "one", queues[:1], 30.0) == queues[:1]
    assert locks.lock("G", "two", queues, LOCK_SECONDS) == queues[1:]
    locks.expire(1000.0)
    assert locks.lock("G", "three", queues, 1000.0) == queues
