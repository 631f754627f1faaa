from __future__ import annotations

from gantrymq.message.queues import MessageQueue


def test_queues_order_by_topic_then_broker_then_number() -> None:
    """Members of a group that sort differently share the queues out differently. Source: MessageQueue.compareTo."""
    queues = [
        MessageQueue("b", "x", 0),
        MessageQueue("a", "y", 0),
        MessageQueue("a", "x", 10),
        MessageQueue("a", "x", 9),
    ]
    assert [str(queue) for queue in sorted(queues)] == ["a/x/9", "a/x/10", "a/y/0", "b/x/0"]


def test_queues_are_keys() -> None:
    assert {MessageQueue("a", "x", 0): 1}[MessageQueue("a", "x", 0)] == 1
