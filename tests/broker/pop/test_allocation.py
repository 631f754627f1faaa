"""Which member reads which queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.pop.allocation import STRATEGIES, assign, averagely, by_circle
from gantrymq.broker.upkeep.name_server_routes import readable_queues
from gantrymq.message.pop import RequestMode
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import QueueData, TopicRoute
from gantrymq.protocol.files.request_modes import GroupRequestMode

PULL = GroupRequestMode(topic="T", consumer_group="G")


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


def members(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def pop_mode(share: int) -> GroupRequestMode:
    return GroupRequestMode(topic="T", consumer_group="G", mode=RequestMode.POP, pop_share_queue_num=share)


@pytest.mark.parametrize("name", list(STRATEGIES))
@given(st.integers(1, 12), st.integers(1, 8))
def test_pulled_queues_have_one_reader_each(name: str, queue_count: int, member_count: int) -> None:
    everybody = members(member_count)
    shares = [assign(STRATEGIES[name], member, queues(queue_count), everybody, PULL) for member in everybody]
    assert sorted(queue for share in shares for queue in share) == queues(queue_count)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_ways_of_apache() -> None:
    assert averagely("c1", queues(5), members(3)) == queues(5)[2:4]
    assert by_circle("c1", queues(5), members(3)) == [queues(5)[1], queues(5)[4]]
    assert averagely("stranger", queues(5), members(3)) == by_circle("stranger", queues(5), members(3)) == []


@pytest.mark.parametrize("share", [-1, 0, 2])
def test_everybody_pops_from_everywhere(share: int) -> None:
    both = queues(2, "a") + queues(2, "b")
    assert assign(averagely, "c0", both, members(3), pop_mode(share)) == [
        MessageQueue("T", "a", -1), MessageQueue("T", "b", -1)
    ]  # fmt: skip


def test_a_member_pops_also_from_the_queues_of_the_next() -> None:
    assert assign(averagely, "c3", queues(4), members(4), pop_mode(1)) == [queues(4)[3], queues(4)[0]]
    assert assign(averagely, "c4", queues(2), members(5), pop_mode(1)) == [queues(2)[0]], "more members than queues"
    assert assign(averagely, "stranger", queues(4), members(4), pop_mode(1)) == []


def test_only_what_can_be_read_is_shared_out() -> None:
    route = TopicRoute(
        queue_datas=[
            QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=4, perm=6),
            QueueData(broker_name="b", read_queue_nums=2, write_queue_nums=2, perm=2),
        ]
    )
    assert readable_queues("T", route) == queues(2, "a")
