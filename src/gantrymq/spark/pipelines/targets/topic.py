"""The target ``topic``: dead letters as messages of another topic, each with its place and the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gantrymq.client.sync import Producer
from gantrymq.message.message import Message
from gantrymq.spark.options import parse_options
from gantrymq.spark.pipelines.job import TopicTarget
from gantrymq.spark.pipelines.targets.staging import InDescriptions, Stage, Staged, rows_in

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = "gantry-pipeline"
PLACE, REASON = "DEAD_LETTER_PLACE", "DEAD_LETTER_REASON"
"""Properties of a dead letter. The place is topic/broker/queue/offset."""


class TopicWriter:
    """Sends rows as messages. A batch that runs again after a crash is sent again: a dead letter may be there twice."""

    def __init__(self, target: TopicTarget, source: Mapping[str, str]) -> None:
        self._topic = target.topic
        servers = target.name_servers or parse_options(source).name_servers
        self._producer = Producer(GROUP, name_servers=servers)
        self._producer.start()
        self._sent = 0

    def has(self, query: str, batch: int) -> bool:
        return False

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """A message has every body and, of the reasons, what ``reasons.plain`` makes of them."""
        return {}

    def stage(self, query: str, batch: int) -> Stage:
        return InDescriptions()

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        return True

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        rows = rows_in(staged)
        return 0 if rows is None else self.add(query, batch, rows)

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        for row in rows.to_pylist():
            place = "/".join(str(row[name]) for name in ("topic", "broker_name", "queue_id", "queue_offset"))
            properties = {PLACE: place, REASON: row["reason"]}
            self._producer.send(Message(self._topic, row["body"] or b" ", properties=properties))
        self._sent += len(rows)
        return len(rows)

    def others(self, query: str) -> Mapping[str, int]:
        return {}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        return None

    def rows(self) -> int:
        """The messages that this run has sent."""
        return self._sent

    def finish(self) -> None:
        """Every message is stored already."""

    def close(self) -> None:
        self._producer.close()
