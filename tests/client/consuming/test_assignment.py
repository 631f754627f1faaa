"""Queues are shared out as Java's AllocateMessageQueueAveragely does it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.consuming.assignment import assign_averagely
from gantrymq.message.queues import MessageQueue


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "b", number) for number in range(count)]


def java(member: str, members: list[str], places: list[MessageQueue]) -> list[MessageQueue]:
    """The published algorithm, step by step."""
    index, mod = members.index(member), len(places) % len(members)
    if len(places) <= len(members):
        size = 1
    elif mod > 0 and index < mod:
        size = len(places) // len(members) + 1
    else:
        size = len(places) // len(members)
    start = index * size if mod > 0 and index < mod else index * size + mod
    return [places[(start + i) % len(places)] for i in range(min(size, len(places) - start))]


@given(st.integers(1, 40), st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=12))
def test_equal_to_java_and_complete(count: int, members: set[str]) -> None:
    places, order = queues(count), sorted(members)
    shares = {member: assign_averagely(member, reversed(order), reversed(places)) for member in order}
    assert {member: list(share) for member, share in shares.items()} == {
        member: java(member, order, places) for member in order
    }
    assert sorted(queue for share in shares.values() for queue in share) == places


def test_who_is_not_in_the_list_gets_nothing() -> None:
    assert assign_averagely("x", ["a", "b"], queues(4)) == ()
