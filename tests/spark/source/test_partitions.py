from __future__ import annotations

import itertools
import pickle

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import StreamOffset
from gantrymq.spark.source.partitions import SMALL_TASK_ROWS, QueueRange, plan_tasks, ranges_between, ranges_of


def queue(number: int) -> MessageQueue:
    return MessageQueue("orders", "b", number)


sizes = st.lists(st.integers(1, 60_000), min_size=1, max_size=6)


@given(sizes, st.none() | st.integers(1, 20), st.none() | st.integers(1, 50_000))
def test_tasks_hold_every_message_once(rows: list[int], min_partitions: int | None, max_rows: int | None) -> None:
    ranges = [QueueRange(queue(number), 100, 100 + size) for number, size in enumerate(rows)]
    if max_rows is not None:
        max_rows = max(max_rows, sum(rows) // 500 + 1)
    tasks = plan_tasks(ranges, min_partitions, max_rows)
    pieces = sorted((part.queue, part.begin, part.end) for task in tasks for part in task)
    for part in ranges:
        own = [(begin, end) for at, begin, end in pieces if at == part.queue]
        assert own[0][0] == part.begin and own[-1][1] == part.end
        assert all(left[1] == right[0] for left, right in itertools.pairwise(own))
    if max_rows is not None:
        assert all(sum(part.rows for part in task) <= max_rows for task in tasks)
    if min_partitions is not None:
        assert len(tasks) >= min(min_partitions, sum(rows)) // 2
    assert pickle.loads(pickle.dumps(tasks)) == tasks


def test_small_queues_share_a_task() -> None:
    ranges = [QueueRange(queue(number), 0, 10) for number in range(8)]
    assert plan_tasks(ranges, None, None) == [tuple(ranges)]


def test_big_queues_are_not_cut_unless_asked() -> None:
    ranges = [QueueRange(queue(number), 0, 5 * SMALL_TASK_ROWS) for number in range(2)]
    assert plan_tasks(ranges, None, None) == [(ranges[0],), (ranges[1],)]
    assert len(plan_tasks(ranges, 4, None)) == 4


def test_nothing_to_read_is_no_task() -> None:
    assert plan_tasks([], 4, None) == []
    assert ranges_of({queue(0): 5}, {queue(0): 5}) == []


def test_ranges_of_a_batch_of_a_stream() -> None:
    start = StreamOffset({queue(0): 5, queue(1): 7}, {queue(0): 0, queue(1): 7})
    end = StreamOffset({queue(0): 9, queue(1): 7, queue(2): 2}, {queue(0): 0, queue(1): 7, queue(2): 1})
    assert ranges_between(start, end) == [QueueRange(queue(0), 5, 9), QueueRange(queue(2), 1, 2)]
