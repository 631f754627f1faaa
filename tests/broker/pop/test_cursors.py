"""Where pops begin and which offset may be committed."""

from __future__ import annotations

from gantrymq.broker.pop.cursors import Cursors

PLACE = ("G", "T", 0)


class Offsets:
    def __init__(self, offset: int | None = None) -> None:
        self.offset = offset

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.offset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.offset = offset


def test_the_next_pop_goes_on_behind_and_nothing_is_committed_before_it_is_safe() -> None:
    offsets = Offsets(5)
    cursors = Cursors(offsets)
    first = cursors.take(PLACE, 8)
    second = cursors.take(PLACE, 12)
    assert (cursors.position(PLACE), offsets.offset) == (12, 5)
    cursors.settle(second)
    assert offsets.offset == 5, "in the order they were made"
    cursors.settle(first)
    assert (cursors.position(PLACE), offsets.offset) == (12, 12)


def test_what_could_not_be_written_is_popped_again() -> None:
    offsets = Offsets()
    cursors = Cursors(offsets)
    first = cursors.take(PLACE, 3)
    second = cursors.take(PLACE, 6)
    cursors.settle(first)
    cursors.give_back(second)
    assert cursors.position(PLACE) == offsets.offset == 3
    late = cursors.take(PLACE, 4)
    cursors.settle(second)
    assert (cursors.position(PLACE), offsets.offset) == (4, 3), "what was given back has no say any more"
    cursors.settle(late)
    assert offsets.offset == 4


def test_a_reset_wins() -> None:
    offsets = Offsets(10)
    cursors = Cursors(offsets)
    taken = cursors.take(PLACE, 20)
    offsets.offset = 0
    cursors.settle(taken)
    assert (cursors.position(PLACE), offsets.offset) == (0, 0)
    other = cursors.take(PLACE, 5)
    cursors.jump(PLACE, 7)
    cursors.settle(other)
    assert (cursors.position(PLACE), offsets.offset) == (7, 7)


def test_check_points_move_a_cursor_forward_only() -> None:
    offsets = Offsets(4)
    cursors = Cursors(offsets)
    cursors.recover(PLACE, 3)
    assert offsets.offset == 4
    cursors.recover(PLACE, 9)
    assert offsets.offset == 9
