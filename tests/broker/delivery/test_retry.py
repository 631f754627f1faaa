"""What happens to a message that could not be consumed: every case, without I/O."""

from __future__ import annotations

import pytest

from gantrymq.broker.delivery.retry import plan_retry
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset, QueueOffset


def message(times: int = 0, topic: str = "T") -> StoredMessage:
    return StoredMessage(
        topic, 0, QueueOffset(0), LogOffset(0), 100, 0, 0, 0, "1.2.3.4:5", 0, "1.2.3.4:5", times, LogOffset(0), 0,
        b"x", "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("times", "wanted", "limit", "topic", "level"),
    [
        (0, 0, 16, "%RETRY%G", 3),
        (1, 0, 16, "%RETRY%G", 4),
        (15, 0, 16, "%RETRY%G", 18),
        (0, 1, 16, "%RETRY%G", 1),
        (5, 7, 16, "%RETRY%G", 7),
        (16, 0, 16, "%DLQ%G", 0),
        (17, 5, 16, "%DLQ%G", 0),
        (0, -1, 16, "%DLQ%G", 0),
        (0, 0, 0, "%DLQ%G", 0),
        (20, 0, 2**31 - 1, "%RETRY%G", 23),
    ],
)
def test_every_case(times: int, wanted: int, limit: int, topic: str, level: int) -> None:
    plan = plan_retry(message(times), "", "G", wanted, limit, 0, "ID")
    assert (plan.topic, plan.queue_id, plan.delay_level, plan.reconsume_times) == (topic, 0, level, times + 1)
    assert properties.find(plan.properties_text, "DELAY") == str(level)


def test_the_first_topic_and_id_stay() -> None:
    first = plan_retry(message(), "TAGS\x01A\x02WAIT\x01true\x02DELAY\x019\x02", "G", 0, 16, 0, "FIRST")
    second = plan_retry(message(1, "%RETRY%G"), first.properties_text, "G", 0, 16, 0, "SECOND")
    assert properties.decode(second.properties_text) == {
        "TAGS": "A", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "FIRST", "WAIT": "false", "DELAY": "4",
    }  # fmt: skip
