"""When the topics of the sink are made, and when a missing one is waited for."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from gantrymq.client.results import PullResult
from gantrymq.errors import RouteNotFound
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.sink.ledger import Ledger, SinkTopicMissing
from gantrymq.spark.sink.places import Piece


class Cluster:
    """Reader and writer of a cluster whose topics are empty. ``unknown``: so many questions find no topic."""

    def __init__(self, unknown: int = 0) -> None:
        self.unknown = unknown
        self.made: list[str] = []

    def queues(self, topic: str) -> list[MessageQueue]:
        if topic not in self.made and self.unknown:
            self.unknown -= 1
            raise RouteNotFound(topic, "no such topic")
        return [MessageQueue(topic, "broker-a", 0)]

    def pull(self, queue: MessageQueue, offset: int, max_count: int = 32) -> PullResult:
        raise AssertionError("there is nothing to pull")

    def min_offset(self, queue: MessageQueue) -> int:
        return 0

    max_offset = min_offset

    def append(self, queue: MessageQueue, message: Message) -> int:
        return 7

    def make_topic(self, topic: str) -> None:
        self.made.append(topic)


def test_the_first_batch_makes_both_topics_also_when_it_has_no_rows() -> None:
    cluster = Cluster(unknown=99)
    Ledger("G", cluster, cluster, 0.0).refresh(make=True)
    assert cluster.made == ["G-decisions", "G-places"]


def test_a_later_batch_waits_for_a_topic_whose_broker_is_away() -> None:
    """It was made a second time on another broker. When the first one was back, no query could write any more."""
    cluster = Cluster(unknown=5)
    ledger = Ledger("G", cluster, cluster, 60.0)
    ledger.refresh()
    assert ledger.write_piece(Piece("P", ())).offset == 7
    assert (cluster.made, cluster.unknown) == ([], 0)


def test_a_topic_that_stays_away_is_an_error_that_says_what_to_do() -> None:
    cluster = Cluster(unknown=99)
    ledger = Ledger("G", cluster, cluster, 0.0)
    with pytest.raises(SinkTopicMissing, match=r"G-decisions cannot say .* If its broker is away, start it"):
        ledger.refresh()
    with pytest.raises(SinkTopicMissing, match=r"the topic G-places, .* If its broker is away, start it"):
        ledger.write_piece(Piece("P", ()))
    assert cluster.made == []
