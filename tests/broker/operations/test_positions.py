"""Offsets of queues and groups as operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.operations.positions import Positions
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.store.values import Boundary
from tests.broker.delivery.pull_lab import GROUP, TOPIC, PullLab


class Lab(PullLab):
    """A store with the positions of its groups."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.positions = Positions(self.store, self.topics, self.groups, self.offsets)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_where_a_queue_begins_and_ends(lab: Lab) -> None:
    assert (lab.positions.begin(TOPIC, 0), lab.positions.end(TOPIC, 0)) == (0, 0)
    assert lab.positions.earliest_store_time(TOPIC, 0) is None
    first = lab.clock.wall
    lab.send("a")
    lab.clock.advance(1)
    lab.send("b")
    assert (lab.positions.begin(TOPIC, 0), lab.positions.end(TOPIC, 0)) == (0, 2)
    assert lab.positions.earliest_store_time(TOPIC, 0) == first
    assert lab.positions.by_time(TOPIC, 0, first + 1, Boundary.LOWER) == 1
    assert lab.positions.by_time(TOPIC, 0, first + 1, Boundary.UPPER) == 0


def test_a_new_group_starts_at_zero_while_the_first_message_is_recent(lab: Lab) -> None:
    assert lab.positions.of_group(GROUP, TOPIC, 0) == 0
    lab.send("a")
    assert lab.positions.of_group(GROUP, TOPIC, 0) == 0
    with pytest.raises(Refused) as caught:
        lab.positions.of_group(GROUP, TOPIC, 0, zero_if_new=False)
    assert caught.value.reason is Refusal.NOT_FOUND


def test_a_group_goes_on_where_it_committed(lab: Lab) -> None:
    assert lab.positions.commit(GROUP, TOPIC, 0, 7)
    assert lab.positions.of_group(GROUP, TOPIC, 0, zero_if_new=False) == 7
    assert lab.positions.of_all_groups()["offsetTable"] == {f"{TOPIC}@{GROUP}": {0: 7}}


def test_nothing_is_committed_until_a_reset_is_known_to_the_group(lab: Lab) -> None:
    lab.offsets.reset(GROUP, TOPIC, 0, 3)
    assert not lab.positions.commit(GROUP, TOPIC, 0, 7)
    assert lab.positions.of_group(GROUP, TOPIC, 0) == 3
    lab.pull(0)
    assert lab.positions.commit(GROUP, TOPIC, 0, 7)


@pytest.mark.parametrize(
    ("group", "topic", "queue_id", "offset", "reason"),
    [
        ("not a group!", TOPIC, 0, 0, Refusal.GROUP_UNKNOWN),
        (GROUP, "Nowhere", 0, 0, Refusal.TOPIC_UNKNOWN),
        (GROUP, TOPIC, -1, 0, Refusal.PARAMETER_INVALID),
        (GROUP, TOPIC, 0, -1, Refusal.PARAMETER_INVALID),
    ],
)
def test_commits_that_are_refused(
    lab: Lab, group: str, topic: str, queue_id: int, offset: int, reason: Refusal
) -> None:  # fmt: skip
    with pytest.raises(Refused) as caught:
        lab.positions.commit(group, topic, queue_id, offset)
    assert caught.value.reason is reason
