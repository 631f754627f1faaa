"""A pop from a topic of type PRIORITY begins with the highest priority. Source: PopMessageProcessor of 5.5.0."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from gantrymq.broker.pop.values import Wanted
from gantrymq.protocol.files.groups import PRIORITY_FACTOR
from tests.broker.pop.lab import GROUP, TOPIC, PopLab

QUEUES = 4
INVISIBLE_MS = 5_000


def lab_of(root: Path, *, factor: int | None = None, message_type: str = "PRIORITY", **settings: object) -> PopLab:
    """Three messages of each priority wait; the body is the priority."""
    lab = PopLab(root, queues=QUEUES, **settings)
    topic = lab.topics.get(TOPIC)
    group = lab.groups.get(GROUP)
    assert topic is not None
    assert group is not None
    lab.topics.update(structs.replace(topic, attributes={"message.type": message_type}))
    if factor is not None:
        lab.groups.update(structs.replace(group, attributes={PRIORITY_FACTOR: str(factor)}))
    for _ in range(3):
        for queue_id in range(QUEUES):
            lab.send(str(queue_id), queue_id)
    return lab


def one_by_one(lab: PopLab, count: int) -> str:
    return "".join(lab.pop(1, INVISIBLE_MS).messages[0].body for _ in range(count))


def test_higher_priorities_come_first(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    assert one_by_one(lab, 12) == "333222111000"


def test_several_at_once_come_in_the_same_order(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    assert [item.body for item in lab.pop(8).messages] == list("33322211")


def test_what_comes_later_overtakes(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    assert one_by_one(lab, 5) == "33322"
    lab.send("3", 3)
    assert one_by_one(lab, 2) == "32"


def test_0_can_be_the_highest_priority(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, priority_order_asc=False)
    assert one_by_one(lab, 12) == "000111222333"


@pytest.mark.parametrize(("settings"), [{"factor": 0}, {"message_type": "NORMAL"}])
def test_a_group_and_a_topic_can_be_without_priorities(tmp_path: Path, settings: dict[str, object]) -> None:
    lab = lab_of(tmp_path, **settings)  # type: ignore[arg-type]
    wanted = Wanted(GROUP, TOPIC, -1, 1, INVISIBLE_MS)
    assert len({lab.consumption.queues.places(wanted)[0] for _ in range(200)}) == QUEUES


def test_the_factor_of_the_group_is_the_share_of_pops_that_go_by_priority(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, factor=50, pop_from_retry_probability=0)
    wanted = Wanted(GROUP, TOPIC, -1, 1, INVISIBLE_MS)
    places = [lab.consumption.queues.places(wanted) for _ in range(400)]
    highest = sum(place[:QUEUES] == [(TOPIC, number) for number in (3, 2, 1, 0)] for place in places)
    assert 0 < highest < 400


def test_an_orderly_pop_and_one_of_a_queue_do_not_go_by_priority(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    places = lab.consumption.queues.places
    orderly = {places(Wanted(GROUP, TOPIC, -1, 1, INVISIBLE_MS, order=True))[0] for _ in range(200)}
    assert len(orderly) == QUEUES
    assert places(Wanted(GROUP, TOPIC, 1, 1, INVISIBLE_MS))[0] == (TOPIC, 1)


@pytest.mark.parametrize(("probability", "expected"), [(0, "222111000333"), (100, "333222111000")])
def test_retried_messages_are_the_last_ones_or_the_first_ones(tmp_path: Path, probability: int, expected: str) -> None:
    lab = lab_of(tmp_path, pop_from_retry_probability_for_priority=probability)
    assert one_by_one(lab, 3) == "333"
    lab.clock.advance(INVISIBLE_MS / 1000 + 1)
    assert one_by_one(lab, 12) == expected
