"""exactly_once: tasks send half messages, the driver decides a batch once, and then ends its half messages.

1. A task sends its rows as half messages of a new attempt, and writes down where they lie (``send_halves``).
2. The driver inserts the decision about the batch: which attempts are committed (``decide``). The first one counts.
3. It commits the half messages of the decision, whichever run of the batch they come from. Spark is told that the batch
   is written when brokers have confirmed all of them.

Whatever is killed between two steps, Spark runs the batch again: before 2 with new attempts, and after 2 the tasks find
the decision, send nothing, and step 3 is repeated, which changes nothing about half messages that are ended already.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError, GantryError, RequestRejected
from gantrymq.message import properties
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import ResponseCode
from gantrymq.spark.sink.at_least_once import InFlight, new_attempt
from gantrymq.spark.sink.chunks import Chunk, Limits, chunks
from gantrymq.spark.sink.columns import SinkColumns, topics_of
from gantrymq.spark.sink.encoding import Encoder
from gantrymq.spark.sink.ids import Attempt, BatchId
from gantrymq.spark.sink.ledger import check_known
from gantrymq.spark.sink.options import SinkSettings
from gantrymq.spark.sink.places import ROWS_IN_PIECE, Piece, Stored, ends_of, stored_of
from gantrymq.spark.sink.processes import SinkProcess, sink_process, task_process
from gantrymq.spark.sink.requests import TaskProducer, end_halves
from gantrymq.spark.sink.rules import MOST_TOPICS, Abandoned, BatchDecision, Ended, Pieces, Winner

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("gantrymq.spark")

ENDS_IN_FLIGHT: Final = 3


@dataclass(frozen=True, slots=True)
class Sent:
    """What a task has sent."""

    of: BatchId
    query_id: str
    winner: Winner | None
    """None: the batch was decided before, and the task has sent nothing."""


def common_properties(settings: SinkSettings) -> str:
    """The properties of every half message."""
    return properties.encode(
        {
            properties.TRANSACTION_PREPARED: "true",
            properties.PRODUCER_GROUP: settings.group,
            properties.CHECK_IMMUNITY_SECONDS: str(max(1, settings.undecided_timeout_ms // 1000)),
            properties.WAIT: "true",
        }
    )


def is_decided(settings: SinkSettings, of: BatchId) -> bool:
    """Whether nothing is to be sent for a batch any more. Raises ConfigError when the control topic was lost."""
    ledger = sink_process(settings).ledger
    # The topics of the sink may not be there yet; a later batch has been where it found them.
    state = ledger.refresh(make=of.batch == 0 or settings.accept_lost_control_topic)
    check_known(state, of, ledger.decisions_topic, accept=settings.accept_lost_control_topic)
    last = state.last_batch(of.query)
    if last > of.batch:
        log.warning(
            "batch %d of the query %s is not written: batch %d was written before, so its checkpoint was set back",
            of.batch, of.query, last,
        )  # fmt: skip
    return last >= of.batch


def refuse_other_topics(
    settings: SinkSettings, of: BatchId, topics: frozenset[str], known: frozenset[str] | None
) -> None:
    """Raise ConfigError for rows of a decided batch that go where the query has never written: nobody has sent them.

    ``known``: the topics to which the query has written; None: they are not known.
    """
    others = sorted(topics - known) if known is not None else []
    if not others:
        return
    there = f"only to {', '.join(sorted(known or ()))}" if known else "without any row"
    if settings.write_id is not None:
        raise ConfigError(
            f"the write {settings.write_id} was made before, {there}, so its rows for {others[0]} would be in no "
            "topic. Give the write another writeId"
        )
    raise ConfigError(
        f"batch {of.batch} of this query was written before, {there}, so its rows for {others[0]} would be in no "
        "topic. The checkpoint is that of a query which writes elsewhere, or a copy of it. Give a new checkpoint; or, "
        "to go on from the offsets of this one, another producerGroup, and once the option controlTopicLost=accept"
    )


def send_halves(
    settings: SinkSettings, columns: SinkColumns, of: BatchId, partition: int, batches: Iterator[pa.RecordBatch]
) -> Winner | None:
    """Send the rows of a task as half messages. None: the batch is decided, and nothing was sent."""
    process = task_process(settings, of)
    if is_decided(settings, of):
        known = process.ledger.refresh().topics(of.query)
        for batch in batches:  # Spark wants its rows to be read, also without this check
            refuse_other_topics(settings, of, topics_of(batch, columns, settings.topic), known)
        return None
    attempt = new_attempt(of)
    task = _TaskHalves(process, settings, attempt)
    encoder = Encoder(columns, settings.topic, attempt.prefix, "", partition)
    limits = Limits(settings.batch_max_rows, settings.batch_max_bytes)
    try:
        for batch in batches:
            for chunk in chunks(encoder.items(batch), settings.topic, limits, task.queue_count):
                task.send(chunk)
        return task.finish()
    except BaseException:
        task.give_up()
        raise


class _TaskHalves:
    """The half messages of one attempt, while its task sends them."""

    def __init__(self, process: SinkProcess, settings: SinkSettings, attempt: Attempt) -> None:
        self._process = process
        self._settings = settings
        self._attempt = attempt
        self._tasks = process.tasks
        self.queue_count = self._tasks.queue_count
        self._common = common_properties(settings)
        self._flight = InFlight(settings.requests_in_flight)
        self._stored: list[Stored] = []
        self._stored_rows = self._rows = 0
        self._pieces: list[Pieces] = []
        self._topics: set[str] = set()

    def send(self, chunk: Chunk) -> None:
        for answered in self._flight.before(chunk):
            self._take(*answered)
        timeout_ms = self._settings.write_timeout_ms
        self._flight.sent(chunk, self._tasks.submit(TaskProducer.store_halves, chunk, self._common, timeout_ms))

    def _take(self, chunk: Chunk, answer: tuple[str, bytes]) -> None:
        self._stored.append(stored_of(chunk.topic, answer[0], chunk.rows, answer[1]))
        self._topics.add(chunk.topic)
        self._stored_rows += len(chunk.rows)
        self._rows += len(chunk.rows)
        if self._stored_rows >= ROWS_IN_PIECE:
            self._write()

    def _write(self) -> None:
        piece = Piece(self._attempt.prefix, tuple(self._stored))
        self._pieces.append(self._process.ledger.write_piece(piece))
        self._stored, self._stored_rows = [], 0

    def finish(self) -> Winner:
        """Wait until all half messages are stored, and written down."""
        for answered in self._flight.rest():
            self._take(*answered)
        if self._stored:
            self._write()
        topics = tuple(sorted(self._topics)) if len(self._topics) <= MOST_TOPICS else ()
        return Winner(self._attempt.token, self._rows, tuple(self._pieces), topics)

    def give_up(self) -> None:
        """The task fails: roll back what was not written down yet. For the rest there is the check-back."""
        ends = ends_of(Piece(self._attempt.prefix, tuple(self._stored)))
        group, tasks = self._settings.group, self._tasks
        try:
            for topic, broker, body, _ in ends:
                tasks.submit(end_halves, group, topic, broker, body, Resolution.ROLLBACK)
        except GantryError as error:
            log.info("half messages of a failed task are left to the check-back: %s", error)


class Commit:
    """Commits and aborts batches, in the driver. The methods are its steps, in their order."""

    def __init__(self, settings: SinkSettings, process: SinkProcess | None = None) -> None:
        """``process``: the clients to use; None: those of this process."""
        self._settings = settings
        process = process or sink_process(settings)
        self._commits = process.commits
        self._ledger = process.ledger

    def commit(self, sent: Sequence[Sent]) -> None:
        """Make the rows of a batch visible; return when brokers have confirmed all of them."""
        if not sent:
            return
        of = sent[0].of
        state = self._ledger.refresh()
        decision = state.decision(of)
        if decision is None and state.last_batch(of.query) < of.batch:
            decision = self.decide(sent)
        if decision is not None:
            self.end(decision.winners, Resolution.COMMIT)
            self.note_end(of)
        self._roll_back_losers(sent, decision)

    def decide(self, sent: Sequence[Sent]) -> BatchDecision:
        """Insert the decision; return the one that counts. Raises ConfigError when an attempt was abandoned."""
        of, winners = sent[0].of, tuple([task.winner for task in sent if task.winner is not None])
        if len(winners) < len(sent):
            raise ConfigError(
                lost_decision(self._ledger.decisions_topic)
            )  # a task has seen a decision that is not there any more
        state = self._ledger.insert(BatchDecision(of.query, of.batch, winners, sent[0].query_id))
        decision = state.decision(of)
        if decision is None:
            raise ConfigError(
                f"batch {of.batch} took longer than undecidedTimeout ({self._settings.undecided_timeout_ms} ms), so "
                "its half messages were rolled back; nothing of it was written. Give a longer undecidedTimeout, and "
                "start the query again"
            )
        return decision

    def end(self, winners: Iterable[Winner], resolution: Resolution) -> None:
        """End half messages. Raises RequestRejected when a broker refuses one."""
        waiting: deque[Future[tuple[int, ...]]] = deque()
        for winner in winners:
            for place in winner.pieces:
                for topic, broker, body, _ in ends_of(self._ledger.read_piece(place)):
                    if len(waiting) >= ENDS_IN_FLIGHT:
                        check_codes(waiting.popleft().result(), resolution)
                    group = self._settings.group
                    waiting.append(self._commits.submit(end_halves, group, topic, broker, body, resolution))
        while waiting:
            check_codes(waiting.popleft().result(), resolution)

    def note_end(self, of: BatchId) -> None:
        """Tell checkers that nothing is left to do for a decided batch."""
        try:
            self._ledger.append(Ended(of.query, of.batch))
        except GantryError as error:
            log.info("a checker will end the half messages of batch %d once more: %s", of.batch, error)

    def _roll_back_losers(self, sent: Sequence[Sent], decision: BatchDecision | None) -> None:
        kept = decision.tokens if decision is not None else frozenset()
        losers = [task.winner for task in sent if task.winner is not None and task.winner.token not in kept]
        try:
            self.end(losers, Resolution.ROLLBACK)
        except GantryError as error:
            log.warning("half messages of an attempt that lost are left to the check-back: %s", error)

    def abort(self, sent: Sequence[Sent]) -> None:
        """Roll back what is not decided, and never what is: a commit that failed may have decided the batch."""
        tasks = [task for task in sent if task.winner is not None]
        if not tasks:
            return
        of = tasks[0].of
        state = self._ledger.refresh()
        for task in tasks:
            # A decision that is still on its way to the control topic must not come true after the roll-back.
            if state.last_batch(of.query) < of.batch and task.winner is not None:
                state = self._ledger.insert(Abandoned(of.query, of.batch, task.winner.token))
        self._roll_back_losers(tasks, state.decision(of))


def check_codes(codes: Sequence[int], resolution: Resolution) -> None:
    """Raise RequestRejected unless brokers have ended all half messages as ``resolution`` says."""
    refused = Counter(code for code in codes if code != ResponseCode.SUCCESS)
    if not refused:
        return
    code, count = refused.most_common(1)[0]
    hint = {
        ResponseCode.ILLEGAL_OPERATION: "they were ended otherwise before, for example by an operator",
        ResponseCode.TOPIC_NOT_EXIST: "their topic was deleted; make it again and start the query again",
        ResponseCode.SYSTEM_ERROR: "the broker has no such half messages; were its files lost or deleted?",
    }.get(ResponseCode(code), "see the broker's log")
    raise RequestRejected(
        code, f"{count} of {len(codes)} half messages: {hint}", request=f"{resolution.name} of a batch of Spark"
    )


def lost_decision(topic: str) -> str:
    return (
        f"a task found this batch decided in the topic {topic}, and now the decision is not there: the topic was "
        "deleted while the batch ran. See controlTopicLost in docs/spark-sink.md"
    )
