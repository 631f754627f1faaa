"""``replay``: messages of an archive back into a topic, by the client's producer. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from zlib import crc32

from gantrymq.client.sync import Producer
from gantrymq.errors import ConfigError
from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.spark.pipelines.archive import ArchiveFile, files_of, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

GROUP = "gantry-replay"
CHUNK_ROWS = 10_000
"""So many messages are Python objects at once."""


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The settings of a replay."""

    archive: str
    name_servers: str
    to_topic: str
    """Where the messages go; it may be the topic they came from."""
    topic: str | None = None
    """Only the messages of this topic of the archive."""
    from_ms: int = 0
    """Only messages that were stored then or later, in ms since 1970,"""
    to_ms: int | None = None
    """and before this time."""


def replay(job: ReplayJob, sent: Callable[[int], None] = lambda count: None, disk: Disk | None = None) -> int:
    """Send the messages again. Returns how many were sent; ``sent`` gets the number of each step.

    Messages of one queue keep their order: they go to one queue of the target. Body, tags, keys and user properties are
    the old ones, the time is new. Each message keeps its id (UNIQ_KEY), so consumers can recognise a message that they
    had before, also when a replay is interrupted and run again. Raises ConfigError when the archive has no such
    message, and the errors of a producer.
    """
    disk = disk or OsDisk()
    chosen = [file for file in files_of(job.archive, disk) if job.topic in (None, file.topic)]
    if not chosen:
        raise ConfigError(f"{job.archive} has no messages{f' of {job.topic}' if job.topic else ''}; give an archive")
    total = 0
    with Producer(GROUP, name_servers=job.name_servers) as producer:
        queues = sorted(producer.queues(job.to_topic))
        for file in chosen:
            for chunk in _chunks(_in_range(rows_of(file, disk), job)):
                for queue, messages in _by_queue(chunk, file, job.to_topic, queues):
                    producer.send_batches(messages, queue)
                    total += len(messages)
                    sent(len(messages))
    return total


def _in_range(rows: pa.Table, job: ReplayJob) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    stored_ms = pc.divide(rows["store_timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1000)
    wanted = pc.greater_equal(stored_ms, job.from_ms)
    if job.to_ms is not None:
        wanted = pc.and_(wanted, pc.less(stored_ms, job.to_ms))
    return rows.filter(wanted)


def _chunks(rows: pa.Table) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(rows), CHUNK_ROWS):
        yield rows.slice(start, CHUNK_ROWS).to_pylist(maps_as_pydicts="strict")


def _by_queue(
    rows: list[dict[str, Any]], file: ArchiveFile, to_topic: str, queues: list[MessageQueue]
) -> Iterator[tuple[MessageQueue, list[Message]]]:
    """The messages by the queue they go to. The rows of one old queue follow each other."""
    for place, some in groupby(rows, key=lambda row: (row["broker_name"], row["queue_id"])):
        number = crc32(f"{file.topic}/{place[0]}/{place[1]}".encode())
        yield queues[number % len(queues)], [message_of(row, to_topic) for row in some]


def message_of(row: Mapping[str, Any], topic: str) -> Message:
    """A message of the archive as one to be sent."""
    old = row["properties"] or {}
    users = {name: value for name, value in old.items() if name not in properties.RESERVED and name and value}
    return Message(
        topic,
        row["body"],
        tags=row["tags"] or None,
        keys=row["keys"] or None,
        properties=users,
        flag=row["flag"],
        unique_key=row["message_id"],
    )
