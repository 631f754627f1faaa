"""Lite topics without messages are deleted, and begin anew."""

from __future__ import annotations

from pathlib import Path

from gantrymq.broker.pop.lite.expiry import LEAST_MINUTES, minutes_of
from gantrymq.message.lite_topics import lite_queue
from gantrymq.protocol.files.topics import TopicConfig
from tests.support.brokers import Cluster, on_broker, until

MINUTE_MS = 60_000
LITE = "__LITE_TOPIC\x01{}\x02"


def test_a_lite_topic_whose_time_is_over_is_deleted_and_the_next_message_makes_it_again(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("Short", attributes="+message.type=LITE,+lite.topic.expiration=20")
        await c.create_topic("Kept", attributes="+message.type=LITE")
        expiry, store = c.broker.popping.lite_expiry, c.broker.store
        clock, now = expiry._clock, expiry._clock.wall_ms()
        queues = [lite_queue(topic, "a") for topic in ("Short", "Kept")]
        for topic in ("Short", "Kept"):
            await c.sent(topic, b"x", LITE.format("a"))
        c.broker.popping.lite._consumption.queues._offsets.commit("G", queues[0], 0, 1)

        class Later:
            def __init__(self, minutes: int) -> None:
                self.minutes = minutes

            def wall_ms(self) -> int:
                return now + self.minutes * MINUTE_MS

        expiry._clock = Later(19)  # type: ignore[assignment]
        expiry.look()
        assert all(map(store.has_queue, queues))
        expiry._clock = Later(21)  # type: ignore[assignment]
        expiry.look()
        await until(lambda: not store.has_queue(queues[0]))
        assert store.has_queue(queues[1])
        assert expiry._offsets.get("G", queues[0], 0) is None
        expiry._clock = clock
        await c.sent("Short", b"y", LITE.format("a"))
        assert store.queue_range(queues[0], 0) == (0, 1)

    on_broker(work, tmp_path)


def test_the_attribute_is_a_number_of_minutes() -> None:
    def of(value: str | None) -> int:
        return minutes_of(
            TopicConfig(topic_name="T", attributes={} if value is None else {"lite.topic.expiration": value})
        )

    assert [of(value) for value in (None, "-1", "many", "30")] == [-1, -1, -1, 30]
    assert LEAST_MINUTES == 15
