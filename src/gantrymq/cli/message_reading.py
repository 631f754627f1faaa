"""Prints the messages of a topic one per line, queue by queue."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from gantrymq.cli import show
from gantrymq.cli.cluster_options import guarded, note
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue

if TYPE_CHECKING:
    from gantrymq.aio import PullConsumer

FOLLOW_SECONDS: Final = 0.5
"""Between two looks for new messages."""
BATCH: Final = 32
"""Messages that are pulled at once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which messages are read."""

    topic: str
    tags: str
    begin_ms: int | None = None
    """The messages stored at or after this time, 0: all; None: the ``last`` ones of every queue."""
    end_ms: int | None = None
    """None: without an end."""
    limit: int | None = None
    """Number of messages in all."""
    last: int = 0
    follow: bool = False
    """Wait for more messages."""


@dataclass(frozen=True, slots=True)
class Lines:
    """How a message is printed."""

    body_bytes: int
    as_json: bool

    def show(self, message: MessageView) -> None:
        if self.as_json:
            show.emit_line(fields(message))
            return
        time = (show.when(message.store_timestamp) or "")[:23]
        place = f"{message.queue.broker_name}:{message.queue.queue_id}@{message.queue_offset}"
        words = " ".join(part for part in (message.tags, ",".join(message.keys)) if part)
        body = show.body_text(message.body, self.body_bytes).replace("\n", " ")
        typer.echo(f"{time}  {place}  {message.message_id}  {show.safe(words) or '-'}  {body}")


def fields(message: MessageView) -> dict[str, Any]:
    """A message for JSON."""
    return {
        "topic": message.topic, "broker": message.queue.broker_name, "queue": message.queue.queue_id,
        "queue_offset": message.queue_offset, "message_id": message.message_id,
        "offset_message_id": message.offset_message_id, "tags": message.tags, "keys": message.keys,
        "born_at": show.when(message.born_timestamp), "born_host": message.born_host,
        "stored_at": show.when(message.store_timestamp), "store_host": message.store_host,
        "reconsume_times": message.reconsume_times, "log_offset": message.log_offset, "flag": message.flag,
        "properties": message.properties, "body_size": len(message.body), **show.body_fields(message.body),
    }  # fmt: skip


def print_queues(reading: Reading, lines: Lines, name_servers: str, command: str) -> None:
    """Print what is to be read; ``command`` is what an error is reported for."""
    with contextlib.suppress(BrokenPipeError):
        shown = guarded(lambda: asyncio.run(_print(reading, lines, name_servers)), command)
        if not shown:
            note(f"no messages in {reading.topic}" + ("" if reading.tags == "*" else f" with tags {reading.tags}"))


async def _print(reading: Reading, lines: Lines, name_servers: str) -> int:
    from gantrymq.aio import PullConsumer

    shown = 0
    async with PullConsumer(name_servers=name_servers) as consumer:
        at = {queue: await _begin(consumer, queue, reading) for queue in await consumer.queues(reading.topic)}
        while True:
            news = 0
            for queue, offset in at.items():
                left = None if reading.limit is None else reading.limit - shown
                at[queue], count = await _drain(consumer, queue, offset, reading, left, lines)
                news += count
                shown += count
            if not reading.follow:
                return shown
            if not news:
                await asyncio.sleep(FOLLOW_SECONDS)


async def _begin(consumer: PullConsumer, queue: MessageQueue, reading: Reading) -> int:
    """The offset of the first message that is read from a queue."""
    low, high = await consumer.min_offset(queue), await consumer.max_offset(queue)
    if reading.begin_ms is None:
        return max(low, high - reading.last)
    return await consumer.offset_by_time(queue, reading.begin_ms) if reading.begin_ms else low


async def _drain(
    consumer: PullConsumer, queue: MessageQueue, offset: int, reading: Reading, left: int | None, lines: Lines
) -> tuple[int, int]:
    """Print the messages from ``offset`` on, ``left`` at most. Returns the next offset, and how many were printed.

    One body at a time is decompressed: what a few bytes grow to must not fill the memory 32 times.
    """
    from gantrymq.client.consuming.filters import filter_of
    from gantrymq.client.consuming.pulling import DEFAULT_MAX_BYTES, each_view

    shown = 0
    while left is None or shown < left:
        count = BATCH if left is None else min(BATCH, left - shown)
        pulled = await consumer.pull_raw(queue, offset, count, DEFAULT_MAX_BYTES, filter_of(reading.tags))
        for message in each_view(pulled, queue, reading.tags):
            if reading.end_ms is not None and message.store_timestamp > reading.end_ms:
                return offset, shown
            lines.show(message)
            shown += 1
        moved = pulled.next_offset > offset
        offset = pulled.next_offset
        if not moved or offset >= pulled.max_offset:
            break
    return offset, shown
