"""The parts of a replay, and how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import ConfigError, StoreFormatUnknown
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.ready_made.replay_plan import (
    VERSION,
    Part,
    Plan,
    QueueRange,
    ReplayFiles,
    Wanted,
    parts_of,
)

WANTED = Wanted(archive="archive", topic=None, from_ms=0, to_ms=None, to_topic="Again")
QUEUES = st.lists(
    st.builds(
        lambda broker, number, first, size: QueueRange(broker, number, first, first + size),
        st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 50), st.integers(1, 40),
    ),
    min_size=1, max_size=6, unique_by=lambda one: (one.broker_name, one.queue_id),
)  # fmt: skip


@given(QUEUES, st.integers(1, 50))
def test_the_parts_have_each_message_once_and_each_queue_in_order(queues: list[QueueRange], part_rows: int) -> None:
    rows = sum(one.end - one.first for one in queues)
    parts = parts_of("T", "2026-01-31", queues, rows, part_rows)
    found: dict[tuple[str, int], list[int]] = {}
    for part in parts:
        assert (part.topic, part.day) == ("T", "2026-01-31")
        assert sum(one.end - one.first for one in part.ranges) <= part_rows + len(queues)
        for one in part.ranges:
            found.setdefault((one.broker_name, one.queue_id), []).extend(range(one.first, one.end))
    assert found == {(one.broker_name, one.queue_id): list(range(one.first, one.end)) for one in queues}


def plan(count: int) -> Plan:
    return Plan(VERSION, "n", WANTED, tuple(Part("T", "d", (QueueRange("a", 0, n, n + 1),)) for n in range(count)))


def test_an_interrupted_replay_continues_with_the_part_in_which_it_was(tmp_path: Path) -> None:
    progress = ReplayFiles(str(tmp_path), OsDisk())
    assert progress.plan(WANTED) is None
    progress.begin(plan(3))
    for number, _ in progress.unsent(plan(3)):
        if number == 1:
            break
    again = ReplayFiles(str(tmp_path), OsDisk())
    assert again.plan(WANTED) == plan(3)
    assert [number for number, _ in again.unsent(plan(3))] == [1, 2]
    assert list(again.unsent(plan(3))) == []


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    progress = ReplayFiles(str(tmp_path), OsDisk())
    progress.begin(plan(1))
    other = Wanted(archive="archive", topic="T", from_ms=0, to_ms=None, to_topic="Elsewhere")
    with pytest.raises(ConfigError, match="another topic and another to_topic"):
        progress.plan(other)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(StoreFormatUnknown, match="no file of a replay"):
        progress.plan(WANTED)
