"""Divides the items of an Arrow batch into requests: rows of one topic, and where rows have an ordering key, of one
queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from gantrymq.message.tags import java_hash
from gantrymq.spark.sink.encoding import Items

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class Chunk:
    """What one request carries."""

    topic: str
    queue: int | None
    """Which of the topic's queues, in their order; None: any."""
    body: bytes
    rows: npt.NDArray[np.uint32]
    """The number of each row in its task."""
    delays_ms: tuple[int, ...] | None = None
    """Of messages that are delayed, and therefore sent one by one; None: they are not."""


@dataclass(frozen=True)
class Limits:
    """The size of a request."""

    rows: int
    bytes: int


def chunks(items: Items, topic: str | None, limits: Limits, queue_count: Callable[[str], int]) -> Iterator[Chunk]:
    """All items, in the order of their rows within each topic and queue. ``topic``: of rows without one.

    ``queue_count``: the number of queues of a topic. A key belongs to the queue that Java's SelectMessageQueueByHash
    chooses.
    """
    for group_topic, queue, delayed, chosen in _groups(items, topic, queue_count):
        part = items.items if chosen is None else items.items.take(chosen)
        rows = items.rows if chosen is None else items.rows[chosen.to_numpy()]
        if delayed:
            delays = items.delays_ms.take(chosen).to_pylist()
            yield Chunk(group_topic, queue, _bytes_of(part), rows, tuple(delays))
        else:
            yield from _cut(group_topic, queue, part, rows, limits)


def _groups(
    items: Items, topic: str | None, queue_count: Callable[[str], int]
) -> Iterator[tuple[str, int | None, bool, Any]]:
    """(topic, queue, whether delayed, indices of the rows); indices None: all rows."""
    count = len(items.rows)
    if items.topics is None and items.ordering_keys is None and items.delays_ms is None:
        if count and topic is not None:
            yield topic, None, False, None
        return
    codes, names = _encoded(items.topics, count, topic)
    delayed: Any = np.zeros(count, dtype=bool)
    if items.delays_ms is not None:
        delayed = pc.greater(pc.fill_null(items.delays_ms, 0), 0).to_numpy(zero_copy_only=False)
    for code, name in enumerate(names):
        of_topic = codes == code
        queues = _queues(items.ordering_keys, count, name, queue_count)
        for queue in np.unique(queues[of_topic]):
            for late in (False, True):
                chosen = np.flatnonzero(of_topic & (queues == queue) & (delayed == late))
                if len(chosen):
                    yield name, None if queue < 0 else int(queue), late, _indices(chosen)


def _encoded(column: Any, count: int, default: str | None) -> tuple[Any, list[str]]:
    """The number of the topic of each row, and the topics."""
    if column is None:
        return np.zeros(count, dtype=np.int32), [default or ""]
    encoded = column.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def _queues(keys: Any, count: int, topic: str, queue_count: Callable[[str], int]) -> Any:
    """The queue of each row; -1: any."""
    if keys is None:
        return np.full(count, -1, dtype=np.int32)
    most = queue_count(topic)
    encoded = keys.dictionary_encode()
    # Java's % keeps the sign of the dividend; its selector then takes the absolute value.
    of_keys = [abs(java_hash(key)) % most if key else -1 for key in encoded.dictionary.to_pylist()]
    codes = pc.fill_null(encoded.indices, len(of_keys)).to_numpy(zero_copy_only=False)
    return np.array([*of_keys, -1], dtype=np.int32)[codes]


def _indices(chosen: Any) -> Any:
    import pyarrow as pa

    return pa.array(chosen)


def _cut(topic: str, queue: int | None, items: Any, rows: Any, limits: Limits) -> Iterator[Chunk]:
    """Chunks of consecutive items. One item may be larger than the limit."""
    offsets = np.frombuffer(items.buffers()[1], dtype=np.int32)[items.offset : items.offset + len(items) + 1]
    values = items.buffers()[2]
    start, count = 0, len(items)
    while start < count:
        fits = int(np.searchsorted(offsets, offsets[start] + limits.bytes, side="right")) - 1
        end = max(start + 1, min(fits, start + limits.rows, count))
        yield Chunk(topic, queue, values[int(offsets[start]) : int(offsets[end])].to_pybytes(), rows[start:end])
        start = end


def _bytes_of(items: Any) -> bytes:
    return b"".join(items.to_pylist())
