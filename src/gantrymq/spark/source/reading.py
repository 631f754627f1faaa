"""Reads exactly one range of a queue: the same rows every time, or an error."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from gantrymq.client.consuming.filters import EVERYTHING, Filter
from gantrymq.errors import ConfigError, GantryError, RemoteProtocolError, RequestRejected
from gantrymq.message.queues import MessageQueue
from gantrymq.message.tags import parse_tag_expression
from gantrymq.protocol.codes import ResponseCode
from gantrymq.spark.columns.decode import Records
from gantrymq.spark.patience import Patience
from gantrymq.spark.source.partitions import QueueRange
from gantrymq.spark.source.queue_reader import Pulled, QueueReader

log = logging.getLogger("gantrymq.spark")
T = TypeVar("T")

PULL_MAX_BYTES: Final = 4 * 1024 * 1024
"""The most bytes that a GantryMQ broker returns. Decoded, they make a batch of a good size for Spark."""
AT_ONCE: Final = 16
"""How many small ranges of a task are pulled at the same time. Most take one answer, so on a network a task would
otherwise mostly wait."""
SMALL_BATCH_ROWS: Final = 1_000
"""Smaller batches are joined: each one costs Spark as much as decoding some hundred rows."""


class DataLost(GantryError):
    """Messages of a range are no longer in the broker (retention, a lost disk, or the topic was created again), or a
    body cannot be decompressed."""

    what_to_do = (
        "Read the rest with `failOnDataLoss=false`, and find out why messages are gone: retention "
        "(`fileReservedTime`), or a topic that was created again."
    )

    def __init__(self, queue: MessageQueue, begin: int, end: int, reason: str) -> None:
        self.queue = queue
        self.begin = begin
        self.end = end
        self.reason = reason
        super().__init__(
            f"messages {begin} to {end - 1} of {queue} cannot be read: {reason}. With the option failOnDataLoss=false "
            f"the query continues behind them"
        )


class _NotThereYet(GantryError):
    """The broker has just restarted, and has not yet rebuilt its queue up to the needed offset."""

    retryable = True

    def __init__(self, part: QueueRange, pull: Pulled) -> None:
        self.max_offset = pull.max_offset
        super().__init__(f"{part.queue} ends at {pull.max_offset} but was already known up to {part.end}")


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Undecoded records of the range ``begin <= queue offset < end``."""

    parts: list[bytes]
    begin: int
    end: int


class RangeReader:
    """Reads ranges through one connection."""

    def __init__(
        self,
        consumer: QueueReader,
        patience: Patience,
        *,
        fail_on_data_loss: bool,
        pull_max_rows: int,
        selection: Filter = EVERYTHING,
    ) -> None:
        """``selection``: only these messages are read. Others in the range are then no loss of data."""
        self._consumer = consumer
        self._patience = patience
        self._fail_on_data_loss = fail_on_data_loss
        self._pull_max_rows = pull_max_rows
        self._selection = selection
        self._tags = parse_tag_expression(selection.tags)

    def all_batches(self, parts: Sequence[QueueRange], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The messages of several ranges, in the order of the ranges; see ``batches``."""
        if len(parts) == 1 or any(part.rows > self._pull_max_rows for part in parts):
            for part in parts:
                yield from self.batches(part, columns)
            return
        yield from joined(
            (
                batch
                for part, first in self._first_answers(parts)
                for batch in self._decoded(part, self._chunks(part, first), columns)
            ),
            SMALL_BATCH_ROWS,
        )

    def _first_answers(self, parts: Sequence[QueueRange]) -> Iterator[tuple[QueueRange, Pulled | None]]:
        """The ranges, each with the answer to its first pull. None: it must be asked once more."""
        for start in range(0, len(parts), AT_ONCE):
            some = parts[start : start + AT_ONCE]
            answers = self._consumer.pull_raw_each(
                [(part.queue, part.begin, part.rows) for part in some], PULL_MAX_BYTES, self._selection
            )
            for part, answer in zip(some, answers, strict=True):
                yield part, None if isinstance(answer, GantryError) or not has_what_was_asked(answer) else answer

    def batches(self, part: QueueRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The messages of a range, in order, about ``pull_max_rows`` at a time.

        Pulls again while the broker restarts. Raises DataLost when a message of the range no longer exists (or, with
        ``failOnDataLoss=false``, continues behind it with a warning), and the last error when the broker stays
        unreachable for longer than the patience.
        """
        chunks: Iterable[_Chunk] = self._chunks(part)
        if part.rows > self._pull_max_rows:
            chunks = one_ahead(iter(chunks))
        return self._decoded(part, chunks, columns)

    def _decoded(
        self, part: QueueRange, chunks: Iterable[_Chunk], columns: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            records = Records.scan(b"".join(chunk.parts) if len(chunk.parts) > 1 else chunk.parts[0])
            records = self._exactly(records, part.queue, chunk)
            if self._tags and len(records):
                # The broker compares only the hashes of tags.
                records = records.where(records.have_tags(self._tags))
            unreadable = partial(self._unreadable, part.queue)
            for piece in records.pieces(columns, unreadable) if len(records) else ():
                yield piece.batch(columns, part.queue.topic, part.queue.broker_name)

    def _chunks(self, part: QueueRange, first: Pulled | None = None) -> Iterator[_Chunk]:
        """The answers to pulls, the first of which may be there. Small ones are joined, because an Apache broker
        returns at most 32 messages."""
        position = begin = part.begin
        parts: list[bytes] = []
        size = 0
        while position < part.end:
            pull, first = first or self._pull(part, position), None
            if pull and self._selection != EVERYTHING and pull.min_offset > position:
                self._lost(part.queue, position, min(pull.min_offset, part.end), "the queue begins after them")
            position = min(max(pull.next_offset, position + 1), part.end) if pull else part.end
            if pull and pull.data:
                parts.append(pull.data)
                size += len(pull.data)
            if parts and (position - begin >= self._pull_max_rows or size >= PULL_MAX_BYTES or position >= part.end):
                yield _Chunk(parts, begin, position)
                parts, size, begin = [], 0, position
        if begin < part.end and self._selection == EVERYTHING:
            self._lost(part.queue, begin, part.end, "the broker skips them and returns none")

    def _pull(self, part: QueueRange, position: int) -> Pulled | None:
        """The answer of the broker; None when it does not have the rest of the range, which this method reports."""
        try:
            return self._patience.call(f"reading {part}", lambda: self._pull_once(part, position))
        except _NotThereYet as error:
            self._lost(part.queue, position, part.end, f"the queue now ends at {error.max_offset}")
            return None
        except RequestRejected as error:
            raise (error if self._selection == EVERYTHING else about_selection(error)) from None

    def _pull_once(self, part: QueueRange, position: int) -> Pulled:
        count = min(self._pull_max_rows, part.end - position)
        pull = self._consumer.pull_raw(part.queue, position, count, PULL_MAX_BYTES, self._selection)
        if has_what_was_asked(pull):
            return pull
        if pull.max_offset <= position:
            raise _NotThereYet(part, pull)
        return pull

    def _exactly(self, records: Records, queue: MessageQueue, chunk: _Chunk) -> Records:
        """Exactly the records of the chunk. Missing records are reported."""
        offsets = records.queue_offsets if len(records) else np.zeros(0, np.int64)
        inside = (offsets >= chunk.begin) & (offsets < chunk.end)
        if not inside.all():
            records, offsets = records.where(inside), offsets[inside]
        if len(offsets) == chunk.end - chunk.begin and (np.diff(offsets) == 1).all():
            return records
        if self._selection != EVERYTHING:
            if (np.diff(offsets) < 1).any():
                raise GantryError(f"the broker gave messages of {queue} twice or out of order near {chunk.begin}")
            return records
        steps = np.diff(np.concatenate([[chunk.begin - 1], offsets, [chunk.end]]))
        if (steps < 1).any():
            raise GantryError(f"the broker gave messages of {queue} twice or out of order near {chunk.begin}")
        before = int(np.argmax(steps > 1))
        lost_from = int(offsets[before - 1]) + 1 if before else chunk.begin
        self._lost(queue, lost_from, lost_from + int(steps[before]) - 1, "the broker has others, but not these")
        return records

    def _unreadable(self, queue: MessageQueue, offset: int, error: RemoteProtocolError) -> None:
        """A body that is damaged, or that grows too large when it is decompressed."""
        self._lost(queue, offset, offset + 1, str(error))

    def _lost(self, queue: MessageQueue, begin: int, end: int, reason: str) -> None:
        error = DataLost(queue, begin, end, reason)
        if self._fail_on_data_loss:
            raise error
        log.error("%s", error)


def about_selection(error: RequestRejected) -> GantryError:
    """The refusal of a pull that selects messages, with the name of the option if that is the reason."""
    if error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        return ConfigError(f"option subExpression: the broker {error.address} cannot use it: {error.remark}")
    if "does not support" in (error.remark or ""):
        return ConfigError(
            f"option subExpressionType is SQL92, and the broker {error.address} does not allow that: set "
            "enablePropertyFilter=true there, or select in Spark with a filter"
        )
    return error


def has_what_was_asked(pull: Pulled) -> bool:
    """Whether the broker has the offset, and answered with what is there."""
    return pull.status.name in ("FOUND", "NO_MATCHED_MSG")


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items. A thread fetches the next item while the caller works on the current one."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="gantry-pull-ahead") as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield item  # type: ignore[misc]


def joined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of at least ``rows`` rows (the last one may be smaller)."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= rows:
            yield from _together(waiting)
            waiting = []
    yield from _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches if len(batches) < 2 else pa.Table.from_batches(batches).combine_chunks().to_batches()
