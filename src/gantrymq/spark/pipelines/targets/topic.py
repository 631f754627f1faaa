"""The target ``topic``: dead letters as messages of another topic, each with its place and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantrymq.client.sync import Producer
from gantrymq.message.message import Message
from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.pipelines.job import TopicTarget
from gantrymq.spark.pipelines.targets.staging import ThroughDriver

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = "gantry-pipeline"
PLACE, REASON = "DEAD_LETTER_PLACE", "DEAD_LETTER_REASON"
"""Properties of a dead letter. The place is topic/broker/queue/offset."""


class TopicWriter(ThroughDriver):
    """Sends rows as messages. A batch that runs again after a crash is sent again: a dead letter may be there twice."""

    def __init__(self, target: TopicTarget, source: Mapping[str, str]) -> None:
        self._topic = target.topic
        servers = target.name_servers or parse_options(source).name_servers
        self._producer = Producer(GROUP, name_servers=servers)
        self._producer.start()
        self._sent = 0

    def has(self, query: str, batch: int) -> bool:
        return False

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        for row in rows.to_pylist():
            place = "/".join(str(row[name]) for name in ("topic", "broker_name", "queue_id", "queue_offset"))
            properties = {PLACE: place, REASON: row["reason"]}
            self._producer.send(Message(self._topic, row["body"] or b" ", properties=properties))
        self._sent += len(rows)
        return len(rows)

    def rows(self) -> int:
        """The messages that this run has sent."""
        return self._sent

    def finish(self) -> None:
        """Every message is stored already."""

    def close(self) -> None:
        self._producer.close()
