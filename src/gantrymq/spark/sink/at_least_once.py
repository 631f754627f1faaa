"""at_least_once: tasks send ordinary messages. A batch or a task that runs again sends its messages again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from gantrymq.message import properties
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.sink.chunks import Chunk, Limits, chunks
from gantrymq.spark.sink.columns import SinkColumns
from gantrymq.spark.sink.encoding import Encoder
from gantrymq.spark.sink.ids import Attempt, BatchId
from gantrymq.spark.sink.options import SinkSettings
from gantrymq.spark.sink.processes import task_process
from gantrymq.spark.sink.requests import TaskProducer

if TYPE_CHECKING:
    import pyarrow as pa

TOKEN_BYTES: Final = 8
_WAIT: Final = properties.encode({properties.WAIT: "true"})


def new_attempt(of: BatchId) -> Attempt:
    """The attempt that begins now."""
    return Attempt(of, SystemRng().token(TOKEN_BYTES).hex().upper())


class InFlight:
    """Requests that are not answered yet: a few, so that Spark, this process and the broker work at the same time.

    Requests to one queue that was chosen by an ordering key are sent one after the other, so that a repeated request
    cannot overtake another one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: deque[tuple[Chunk, Future[Any]]] = deque()

    def before(self, chunk: Chunk) -> Iterator[tuple[Chunk, Any]]:
        """Wait until ``chunk`` may be sent. Yields the chunks that were answered meanwhile, with their answers."""
        while self._open and (len(self._open) >= self._most or self._must_wait(chunk)):
            yield self._next()

    def _must_wait(self, chunk: Chunk) -> bool:
        if chunk.queue is None:
            return False
        return any(other.topic == chunk.topic and other.queue == chunk.queue for other, _ in self._open)

    def sent(self, chunk: Chunk, answer: Future[Any]) -> None:
        self._open.append((chunk, answer))

    def rest(self) -> Iterator[tuple[Chunk, Any]]:
        """Wait for all answers."""
        while self._open:
            yield self._next()

    def _next(self) -> tuple[Chunk, Any]:
        chunk, answer = self._open.popleft()
        return chunk, answer.result()


def send_rows(
    settings: SinkSettings, columns: SinkColumns, of: BatchId, partition: int, batches: Iterator[pa.RecordBatch]
) -> int:
    """Send the rows of a task; return their number when brokers have stored all of them."""
    tasks = task_process(settings, of).tasks
    encoder = Encoder(columns, settings.topic, new_attempt(of).prefix, _WAIT, partition)
    limits = Limits(settings.batch_max_rows, settings.batch_max_bytes)
    flight, rows = InFlight(settings.requests_in_flight), 0
    for batch in batches:
        rows += batch.num_rows
        for chunk in chunks(encoder.items(batch), settings.topic, limits, tasks.queue_count):
            for _ in flight.before(chunk):
                pass
            flight.sent(chunk, tasks.submit(TaskProducer.store, chunk, settings.write_timeout_ms))
    for _ in flight.rest():
        pass
    return rows
