"""Which waiting pops are answered, and when."""

from __future__ import annotations

from gantrymq.broker.filtering.selection import EVERYTHING, by_tags
from gantrymq.broker.pop.waiting import Waiter, Waiting
from gantrymq.message.tags import java_hash
from tests.broker.transaction_lab import LabClock
from tests.support.clients import PlainClient


class Room:
    """Waiters by number; those of ``served`` were answered."""

    def __init__(self) -> None:
        self.clock = LabClock()
        self.waiting = Waiting(self.clock, 2, 3)
        self.waiting_for: list[str] = []
        self.tried: list[tuple[str, bool]] = []
        self.empty = False

    def enter(self, name: str, *, queue_id: int = -1, group: str = "G", tags: str = "*", wake: float | None = None,
              seconds: float = 10.0) -> Waiter:  # fmt: skip
        def resume(expired: bool) -> bool:
            self.tried.append((name, expired))
            return expired or not self.empty

        waiter = Waiter(
            PlainClient(), "T", group, queue_id, by_tags(tags) if tags != "*" else EVERYTHING,
            self.clock.monotonic() + seconds, resume, wake,
        )  # fmt: skip
        self.waiting.hold(waiter)
        return waiter

    def arrive(self, topic: str = "T", queue_id: int = 0, tag: str = "A") -> list[tuple[str, bool]]:
        self.waiting.arrived(topic, queue_id, 0, java_hash(tag), f"TAGS\x01{tag}\x02")
        self.clock.run()
        tried, self.tried = self.tried, []
        return tried


def test_the_one_that_waits_longest_is_woken() -> None:
    room = Room()
    room.enter("first")
    room.enter("second")
    assert room.arrive() == [("first", False)]
    assert room.arrive() == [("second", False)]
    assert (room.arrive(), len(room.waiting)) == ([], 0)


def test_only_by_what_it_can_use() -> None:
    room = Room()
    room.enter("queue 1", queue_id=1)
    room.enter("tag B", tags="B")
    assert room.arrive() == []
    assert room.arrive("Other") == []
    assert room.arrive(queue_id=1) == [("queue 1", False)]
    assert room.arrive("%RETRY%G_T", tag="A") == []
    assert room.arrive("%RETRY%G_T", tag="B") == [("tag B", False)]


def test_each_group_is_woken() -> None:
    room = Room()
    room.enter("g", group="G")
    room.enter("h", group="H")
    assert room.arrive() == [("g", False), ("h", False)]


def test_who_finds_nothing_waits_on_until_its_deadline() -> None:
    room = Room()
    room.empty = True
    room.enter("x")
    assert room.arrive() == [("x", False)]
    assert len(room.waiting) == 1
    room.clock.advance(9.5)
    assert room.tried == []
    room.clock.advance(1.0)
    assert (room.tried, len(room.waiting)) == ([("x", True)], 0)


def test_an_orderly_one_is_woken_when_its_queue_opens() -> None:
    room = Room()
    room.enter("x", wake=room.clock.monotonic() + 2.0)
    room.clock.advance(1.5)
    assert room.tried == []
    room.clock.advance(1.0)
    assert room.tried == [("x", False)]


def test_limits() -> None:
    room = Room()
    assert not room.waiting.is_full("T", "G", -1)
    room.enter("1")
    room.enter("2")
    assert room.waiting.is_full("T", "G", -1), "of a queue"
    assert not room.waiting.is_full("T", "G", 3)
    assert room.waiting.count("T", "G", -1) == 2
    room.enter("3", group="H")
    assert room.waiting.is_full("Other", "G", 0), "of all"


def test_those_who_left_are_forgotten() -> None:
    room = Room()
    waiter = room.enter("1")
    gone = room.enter("2")
    gone.client.alive = False
    room.waiting.client_gone(waiter.client)
    assert (len(room.waiting), room.arrive()) == (1, [])
    room.enter("3")
    room.waiting.close()
    assert (len(room.waiting), room.arrive()) == (0, [])


def test_one_that_is_gone_or_reads_nothing_does_not_use_up_what_wakes_the_others() -> None:
    room = Room()
    gone, deaf = room.enter("gone"), room.enter("deaf")
    gone.client.alive = False  # type: ignore[misc]
    deaf.client.writable = False  # type: ignore[misc]
    room.enter("third")
    assert room.arrive() == [("third", False)]


def test_one_that_dies_between_its_message_and_its_turn_wakes_the_next() -> None:
    room = Room()
    dying = room.enter("dying")
    room.enter("next")
    room.waiting.arrived("T", 0, 0, 0, "")
    dying.client.alive = False  # type: ignore[misc]
    room.clock.run()
    assert room.tried == [("next", False)]
