"""Delay levels: store a message under the schedule topic, and find its own topic again.

Source: ScheduleMessageService, HookUtils.transformDelayLevelMessage; docs/protocol.md#delay-levels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gantrymq.message import properties, system_topics
from gantrymq.store.values import NewRecord


def park(record: NewRecord, level: int, delays_ms: Sequence[int], now_ms: int) -> NewRecord:
    """``record`` as it waits for its time: in the queue of its level, its real place in its properties.

    A level above the highest means the highest. The queue entry holds when it is due.
    """
    level = min(level, len(delays_ms))
    place = f"{properties.REAL_TOPIC}\x01{record.topic}\x02{properties.REAL_QUEUE_ID}\x01{record.queue_id}\x02"
    return dataclasses.replace(
        record,
        topic=system_topics.SCHEDULE,
        queue_id=level - 1,
        properties=properties.append(record.properties, place),
        tags_code=now_ms + delays_ms[level - 1],
    )


def real_place(properties_text: str) -> tuple[str, int] | None:
    """(topic, queue id) a parked message was meant for; None when its properties do not say it."""
    topic = properties.find(properties_text, properties.REAL_TOPIC)
    queue_id = properties.find(properties_text, properties.REAL_QUEUE_ID)
    if topic is None or queue_id is None or not queue_id.isdecimal():
        return None
    return topic, int(queue_id)
