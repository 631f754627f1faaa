"""What happens to a message that was not acknowledged."""

from __future__ import annotations

import pytest

from gantrymq.broker.pop.check_point import CheckPoint
from gantrymq.broker.pop.revive import plan_revival
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset, QueueOffset


def message(times: int, text: str = "TAGS\x01A\x02KEYS\x01k\x02") -> StoredMessage:
    return StoredMessage(
        "T", 3, QueueOffset(7), LogOffset(4096), 100, 0, 0, 0, "127.0.0.1:1", 0, "127.0.0.1:1", times, LogOffset(0),
        0, b"x", text,
    )  # fmt: skip


def point(topic: str = "T", suspend: bool = False) -> CheckPoint:
    return CheckPoint(topic, "G", 3, 7, 1_700_000_000_000, 1000, "b", (0,), suspend)


@pytest.mark.parametrize(("v2", "topic"), [(False, "%RETRY%G_T"), (True, "%RETRY%G+T")])
def test_the_first_time_it_goes_to_the_retry_topic(v2: bool, topic: str) -> None:
    plan = plan_revival(message(0), point(), 16, "ID", v2=v2)
    assert (plan.topic, plan.reconsume_times, plan.dead) == (topic, 1, False)
    assert plan.properties_text == "TAGS\x01A\x02KEYS\x01k\x021ST_POP_TIME\x011700000000000\x02"


def test_later_it_stays_there_and_keeps_its_first_pop() -> None:
    text = "1ST_POP_TIME\x01123\x02TAGS\x01A\x02"
    plan = plan_revival(message(4, text), point("%RETRY%G_T"), 16, "ID", v2=True)
    assert (plan.topic, plan.reconsume_times, plan.properties_text) == ("%RETRY%G_T", 5, text)


def test_a_suspended_delivery_is_no_attempt() -> None:
    plan = plan_revival(message(16), point(suspend=True), 16, "ID", v2=False)
    assert (plan.reconsume_times, plan.dead) == (16, False)


def test_the_last_time_it_becomes_a_dead_letter() -> None:
    plan = plan_revival(message(2), point("%RETRY%G_T"), 2, "ID", v2=False)
    assert (plan.topic, plan.reconsume_times, plan.dead) == ("%DLQ%G", 3, True)
    decoded = properties.decode(plan.properties_text)
    assert decoded == {
        "TAGS": "A", "KEYS": "k", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "ID", "DLQ_ORIGIN_TOPIC": "T",
        "DLQ_ORIGIN_MESSAGE_ID": "ID",
    }  # fmt: skip
