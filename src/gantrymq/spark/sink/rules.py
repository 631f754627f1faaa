"""What the records of a control topic mean together, and what follows for a half message. Pure rules.

The control topic has one queue. Its records are read in the order of the queue, so every process comes to the same
result, and of two records that contradict each other the first one counts:

| record                | it counts unless                                                                      |
|-----------------------|---------------------------------------------------------------------------------------|
| decision about a batch| this batch or a later one of the query is decided, or one of its attempts is abandoned|
| an attempt is         | its batch or a later one is decided                                                   |
| abandoned             |                                                                                       |

What is decided about a half message, by the attempt in its id:

| the query's last decision is about | attempt in it | attempt abandoned | verdict    |
|------------------------------------|---------------|-------------------|------------|
| a later batch                      |               |                   | ROLL_BACK  |
| this batch                         | yes           |                   | COMMIT     |
| this batch                         | no            |                   | ROLL_BACK  |
| an earlier batch, or none          |               | yes               | ROLL_BACK  |
| an earlier batch, or none          |               | no                | UNDECIDED  |

The first row holds because a batch is decided only when all half messages of the batch before it are ended.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from gantrymq.spark.sink.ids import Attempt, BatchId

MOST_TOPICS: Final = 100
"""So many topics of a task are kept in a decision."""


class Pieces(msgspec.Struct, frozen=True):
    """Where the places of half messages are written: messages in one queue of the topic of places."""

    broker: str
    queue_id: int
    offset: int


class Winner(msgspec.Struct, frozen=True):
    """One task of a decided batch: the attempt whose half messages are committed."""

    token: str
    rows: int
    pieces: tuple[Pieces, ...]
    topics: tuple[str, ...] = ()
    """Of its rows; none of them if they are not known, or more than ``MOST_TOPICS``."""


class BatchDecision(msgspec.Struct, frozen=True, tag="decision"):
    """A batch is decided: exactly these attempts are committed."""

    query: str
    batch: int
    winners: tuple[Winner, ...]
    query_id: str = ""
    """Spark's id of the query or the name of the write, for people."""

    @property
    def of(self) -> BatchId:
        return BatchId(self.query, self.batch)

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset([winner.token for winner in self.winners])


class Abandoned(msgspec.Struct, frozen=True, tag="abandoned"):
    """An attempt that no decision may contain any more."""

    query: str
    batch: int
    token: str

    @property
    def of(self) -> BatchId:
        return BatchId(self.query, self.batch)


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """All half messages of a decided batch are committed. Without this record, a checker would commit them again."""

    query: str
    batch: int


ControlRecord: TypeAlias = BatchDecision | Abandoned | Ended
"""A message of the control topic, as JSON."""


class Verdict(enum.Enum):
    """What becomes of a half message."""

    COMMIT = "commit"
    ROLL_BACK = "roll back"
    UNDECIDED = "undecided"


@dataclass(slots=True)
class _Query:
    decided: BatchDecision | None = None
    ended: bool = False
    """Of the decided batch."""
    topics: set[str] = field(default_factory=set)
    """To which decided batches have written."""
    topics_known: bool = True
    """Whether these are all of them."""
    abandoned: dict[int, set[str]] = field(default_factory=dict)
    """Tokens by batch, for the batches after the decided one."""

    def decide(self, decision: BatchDecision) -> None:
        self.decided, self.ended = decision, False
        self.abandoned = {batch: kept for batch, kept in self.abandoned.items() if batch > decision.batch}
        self.topics.update(*[winner.topics for winner in decision.winners])
        self.topics_known = self.topics_known and all(winner.topics or not winner.rows for winner in decision.winners)

    @property
    def last_batch(self) -> int:
        return -1 if self.decided is None else self.decided.batch


class ControlState:
    """The records read so far. It keeps the last decision of each query, and nothing of the batches before it."""

    def __init__(self) -> None:
        self._queries: dict[str, _Query] = {}

    def apply(self, record: ControlRecord) -> None:
        """Take the next record of the queue."""
        query = self._queries.setdefault(record.query, _Query())
        if isinstance(record, Ended):
            query.ended = query.ended or record.batch == query.last_batch
            return
        if record.batch <= query.last_batch:
            return
        abandoned = query.abandoned.get(record.batch, set())
        if isinstance(record, Abandoned):
            query.abandoned[record.batch] = abandoned | {record.token}
        elif abandoned.isdisjoint(record.tokens):
            query.decide(record)

    def knows(self, query: str) -> bool:
        """Whether there is any record of the query."""
        return query in self._queries

    def decision(self, of: BatchId) -> BatchDecision | None:
        """The decision about a batch; None: undecided, or so old that a later batch is decided."""
        query = self._queries.get(of.query)
        found = None if query is None else query.decided
        return found if found is not None and found.batch == of.batch else None

    def last_batch(self, query: str) -> int:
        """The last decided batch; -1: none is decided."""
        found = self._queries.get(query)
        return -1 if found is None else found.last_batch

    def topics(self, query: str) -> frozenset[str] | None:
        """The topics to which the query has written; None: they are not known."""
        found = self._queries.get(query, _NOTHING)
        return frozenset(found.topics) if found.topics_known else None

    def unfinished(self) -> list[BatchDecision]:
        """The decided batches of which some half messages may not be committed yet."""
        return [query.decided for query in self._queries.values() if query.decided is not None and not query.ended]

    def verdict(self, attempt: Attempt) -> Verdict:
        """See the table above."""
        query = self._queries.get(attempt.of.query, _NOTHING)
        if query.last_batch > attempt.of.batch:
            return Verdict.ROLL_BACK
        if query.decided is not None and query.last_batch == attempt.of.batch:
            return Verdict.COMMIT if attempt.token in query.decided.tokens else Verdict.ROLL_BACK
        if attempt.token in query.abandoned.get(attempt.of.batch, ()):
            return Verdict.ROLL_BACK
        return Verdict.UNDECIDED


_NOTHING = _Query()
_decoder = msgspec.json.Decoder(ControlRecord)
_encode = msgspec.json.Encoder().encode


def encode_record(record: ControlRecord) -> bytes:
    return _encode(record)


def decode_record(body: bytes) -> ControlRecord:
    """Raises msgspec.DecodeError when the body is no record."""
    return _decoder.decode(body)
