"""Tables by queue: JSON as keys, in Java's dialect and in ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.progress import QueueProgress
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import ConsumeStats, TopicStats, key_of, queue_of

QUEUE = MessageQueue("T", "broker-a", 1)


def test_java_writes_the_queue_as_a_key_without_quotes() -> None:
    body = b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"T"}:{"maxOffset":2,"minOffset":1}}}'
    (stats,) = TopicStats.decode(body).by_queue().items()
    assert stats[0] == QUEUE
    assert (stats[1].min_offset, stats[1].max_offset, stats[1].last_update_timestamp) == (1, 2, 0)


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**31 - 1))
def test_keys_come_back(topic: str, broker: str, queue_id: int) -> None:
    queue = MessageQueue(topic, broker, queue_id)
    assert queue_of(key_of(queue)) == queue


def test_a_table_comes_back() -> None:
    stats = ConsumeStats(offset_table={key_of(QUEUE): QueueProgress(broker_offset=5, consumer_offset=3)})
    assert ConsumeStats.decode(stats.encode()).by_queue()[QUEUE].consumer_offset == 3


def test_a_key_that_is_no_queue() -> None:
    with pytest.raises(RemoteProtocolError, match="malformed queue"):
        queue_of("1")
