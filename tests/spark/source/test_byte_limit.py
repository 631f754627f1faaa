"""A batch has about as many bytes as it may, whatever the sizes of messages are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import Positions
from gantrymq.spark.source.byte_limit import Place, limited_bytes

Q = [MessageQueue("orders", "b", number) for number in range(3)]


class Sizes:
    """Sizes of messages by a rule, which counts the questions."""

    def __init__(self, size: Callable[[MessageQueue, int], int]) -> None:
        self.size = size
        self.asked = self.looks = 0

    def __call__(self, places: Sequence[Place]) -> dict[Place, int]:
        self.asked += 1
        self.looks += len(places)
        return {place: found for place in places if (found := self.size(*place))}

    def of(self, begin: Positions, end: Positions) -> int:
        return sum(self.size(queue, at) for queue in end for at in range(begin.get(queue, 0), end[queue]))


def test_equal_messages_fill_the_batch() -> None:
    sizes = Sizes(lambda queue, at: 100)
    assert limited_bytes({Q[0]: 10}, {Q[0]: 1010}, 5_000, sizes) == {Q[0]: 60}
    assert limited_bytes({Q[0]: 10}, {Q[0]: 1010}, 100_000, sizes) == {Q[0]: 1010}
    assert limited_bytes({Q[0]: 0, Q[1]: 0}, {Q[0]: 1000, Q[1]: 3000}, 40_000, sizes) == {
        Q[0]: 100, Q[1]: 299,
    }  # fmt: skip


def test_every_queue_advances_and_one_that_was_made_anew_goes_back() -> None:
    sizes = Sizes(lambda queue, at: 4_000_000)
    assert limited_bytes({Q[0]: 5, Q[1]: 0, Q[2]: 9}, {Q[0]: 50, Q[1]: 7, Q[2]: 2}, 1_000, sizes) == {
        Q[0]: 6, Q[1]: 1, Q[2]: 2,
    }  # fmt: skip
    assert limited_bytes({Q[0]: 5}, {Q[0]: 5}, 1_000, sizes) == {Q[0]: 5}


def test_large_messages_far_behind_do_not_make_batches_of_a_few_small_ones() -> None:
    """One look at the whole range would say that a message has 62 kB, and a batch got 160 of 100 bytes."""
    sizes = Sizes(lambda queue, at: 100 if at < 900_000 else 500_000)
    end = limited_bytes({Q[0]: 0}, {Q[0]: 1_000_000}, 10_000_000, sizes)
    assert 5_000_000 <= sizes.of({}, end) <= 10_000_000
    assert sizes.asked <= 6


def test_large_and_small_messages_in_turns_are_both_seen() -> None:
    """Seven or eight messages at equal distances are all of one kind."""
    for rows in (80, 800, 8_000, 7_000):
        for kind in (0, 1):
            sizes = Sizes(lambda queue, at, kind=kind: 100 if at % 2 == kind else 10_000)
            chosen = sizes.of({}, limited_bytes({Q[0]: 0}, {Q[0]: rows}, 200_000, sizes))
            assert 100_000 <= chosen <= 400_000, (rows, kind)


def test_a_backlog_that_ends_with_large_messages_is_not_taken_for_small_ones() -> None:
    sizes = Sizes(lambda queue, at: 100 if at < 25_000 else 400_000)
    begin, most = 0, 8_000_000
    batches = []
    while begin < 25_050:
        end = limited_bytes({Q[0]: begin}, {Q[0]: 25_050}, most, sizes)[Q[0]]
        batches.append(sizes.of({Q[0]: begin}, {Q[0]: end}))
        begin = end
    assert max(batches) <= 1.5 * most and len(batches) <= 10, batches


def test_large_messages_are_not_fetched_for_the_plan_and_again_for_the_batch() -> None:
    """Eight of each of eight queues were 256 MB, to plan a batch of 64."""
    sizes = Sizes(lambda queue, at: 4_000_000)
    queues = [MessageQueue("orders", "b", number) for number in range(8)]
    end = limited_bytes(dict.fromkeys(queues, 0), dict.fromkeys(queues, 1_000), 64_000_000, sizes)
    assert sum(end.values()) == 16
    assert sizes.looks <= 32


def test_many_queues_are_looked_at_a_few_times() -> None:
    sizes = Sizes(lambda queue, at: 100)
    queues = [MessageQueue("orders", "b", number) for number in range(1_000)]
    end = limited_bytes(dict.fromkeys(queues, 0), dict.fromkeys(queues, 1_000), 10_000_000, sizes)
    assert 50_000 <= sum(end.values()) <= 100_000
    assert sizes.looks <= 1_000


def test_messages_that_are_gone_are_left_to_the_reader() -> None:
    gone = Sizes(lambda queue, at: 0)
    assert limited_bytes({Q[0]: 0}, {Q[0]: 500}, 1_000, gone) == {Q[0]: 500}


@given(
    st.lists(st.lists(st.integers(1, 5_000), min_size=0, max_size=60), min_size=1, max_size=3), st.integers(1, 100_000)
)
def test_the_end_lies_between_begin_and_end_and_a_second_look_does_not_move_it(
    lists: list[list[int]], most: int
) -> None:
    sizes = Sizes(lambda queue, at: lists[queue.queue_id][at])
    begin = {Q[number]: 0 for number in range(len(lists))}
    end = {Q[number]: len(one) for number, one in enumerate(lists)}
    chosen = limited_bytes(begin, end, most, sizes)
    assert chosen.keys() == end.keys()
    assert all(min(1, end[queue]) <= at <= end[queue] for queue, at in chosen.items())
    assert limited_bytes(begin, end, most, sizes) == chosen
    if sizes.of(begin, end) <= most / 4 and all(len(one) <= 8 for one in lists):
        assert chosen == end, "few messages are all looked at"
