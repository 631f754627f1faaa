"""The figures of one client. Its event loop alone writes them, so they need no lock.

They know nothing of the client, and outlive it: what it sent counts until the process ends.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from gantrymq.message.transaction import LocalTransactionState
from gantrymq.observability.metrics import Histogram

SEND_BOUNDS_MS: Final[tuple[float, ...]] = (1.0, 5.0, 10.0, 20.0, 50.0, 200.0, 500.0)
DELIVERY_BOUNDS_MS: Final[tuple[float, ...]] = (1.0, 5.0, 10.0, 20.0, 50.0, 200.0, 500.0)
AWAIT_BOUNDS_MS: Final[tuple[float, ...]] = (1.0, 5.0, 20.0, 100.0, 1_000.0, 5_000.0, 10_000.0)
PROCESS_BOUNDS_MS: Final[tuple[float, ...]] = (1.0, 5.0, 10.0, 100.0, 1_000.0, 10_000.0, 60_000.0)
"""The bounds of RocketMQ 5's clients (HistogramEnum)."""
_COMMIT: Final = LocalTransactionState.COMMIT
_ROLLBACK: Final = LocalTransactionState.ROLLBACK


class SendFigures:
    """Of one topic."""

    __slots__ = ("batched", "committed", "cost_ms", "failed", "retried", "rolled_back", "unconfirmed", "unknown")

    def __init__(self) -> None:
        self.cost_ms = Histogram(SEND_BOUNDS_MS)
        """Of each request that a broker answered with success. A request is one message, if it is no batch."""
        self.batched = 0
        """Messages of batches, beside the first one of each."""
        self.failed = 0
        """Sends that raised an error."""
        self.retried = 0
        """Attempts after the first one of a send."""
        self.committed = self.rolled_back = self.unknown = 0
        """Half messages that this process ended."""
        self.unconfirmed = 0
        """Commits and rollbacks that no broker confirmed."""

    def ended(self, state: LocalTransactionState) -> None:
        """A half message is ended. Not a Counter of states, because the hash of an enum costs more than all this."""
        if state is _COMMIT:
            self.committed += 1
        elif state is _ROLLBACK:
            self.rolled_back += 1
        else:
            self.unknown += 1

    @property
    def sent(self) -> int:
        """Messages that a broker has stored."""
        return sum(self.cost_ms.counts) + self.batched

    def add(self, other: SendFigures) -> None:
        self.cost_ms.add(other.cost_ms)
        self.batched += other.batched
        self.failed += other.failed
        self.retried += other.retried
        self.committed += other.committed
        self.rolled_back += other.rolled_back
        self.unknown += other.unknown
        self.unconfirmed += other.unconfirmed


class ReadFigures:
    """Of one topic that a consumer reads."""

    __slots__ = ("await_ms", "consumed", "delivery_ms", "failed", "failed_ms", "processed_ms", "received")

    def __init__(self) -> None:
        self.received = 0
        self.consumed = 0
        self.failed = 0
        """Messages that the listener did not consume: they come again."""
        self.delivery_ms = Histogram(DELIVERY_BOUNDS_MS)
        self.await_ms = Histogram(AWAIT_BOUNDS_MS)
        self.processed_ms = Histogram(PROCESS_BOUNDS_MS)
        self.failed_ms = Histogram(PROCESS_BOUNDS_MS)

    def got(self, stored_ms: Iterable[int], count: int, now_ms: int) -> None:
        """``count`` messages arrived, which were stored at these times."""
        self.received += count
        observe = self.delivery_ms.observe
        for moment in stored_ms:
            observe(now_ms - moment)

    def handled(self, count: int, consumed: bool, waited_s: float, took_s: float) -> None:
        """The listener was called with ``count`` messages."""
        waits, waited_ms, took_ms = self.await_ms, waited_s * 1000, took_s * 1000
        if consumed:
            self.consumed += count
            calls = self.processed_ms
        else:
            self.failed += count
            calls = self.failed_ms
        if waited_ms <= 1 and took_ms <= 1:  # the first bucket of both; two calls would take three times as long
            waits.counts[0] += 1
            waits.sum += waited_ms
            calls.counts[0] += 1
            calls.sum += took_ms
        else:
            waits.observe(waited_ms)
            calls.observe(took_ms)

    def add(self, other: ReadFigures) -> None:
        self.received += other.received
        self.consumed += other.consumed
        self.failed += other.failed
        self.delivery_ms.add(other.delivery_ms)
        self.await_ms.add(other.await_ms)
        self.processed_ms.add(other.processed_ms)
        self.failed_ms.add(other.failed_ms)


class Backlog(NamedTuple):
    """Of one topic that a consumer reads, at the moment."""

    topic: str
    cached: int
    """Messages in the client that are not consumed."""
    cached_bytes: int
    lag: int
    """Messages of the queues of this member that are not consumed, as far as the last pulls know."""


class HasBacklogs(Protocol):
    """A consumer's queues."""

    def backlogs(self) -> Iterable[Backlog]: ...


def while_it_lives(queues: HasBacklogs) -> Callable[[], Iterable[Backlog]]:
    """``queues.backlogs``; nothing when they are gone. It does not keep them alive."""
    found = weakref.ref(queues)

    def read() -> Iterable[Backlog]:
        queues = found()
        return () if queues is None else queues.backlogs()

    return read


class OutboxFigures(NamedTuple):
    """Messages of a producer group that wait in a table of its database, as this process has counted them."""

    rows: int
    oldest_s: float


class ClientFigures:
    """Everything that one client counts."""

    def __init__(self, group: str) -> None:
        """``group``: of producers or consumers, as brokers know it."""
        self.group: Final = group
        self.sends: dict[str, SendFigures] = {}
        self.reads: dict[str, ReadFigures] = {}
        self.checks: Counter[LocalTransactionState] = Counter()
        """Check-backs, by the answer."""
        self.backlogs: Callable[[], Iterable[Backlog]] = tuple
        """What waits at the moment."""
        self.outboxes: Callable[[], Iterable[OutboxFigures]] = tuple
        """What waits in a database until a broker takes it; see ``gantrymq.sql``."""

    def of_sends(self, topic: str) -> SendFigures:
        found = self.sends.get(topic)
        if found is None:
            found = self.sends[topic] = SendFigures()
        return found

    def of_reads(self, topic: str) -> ReadFigures:
        found = self.reads.get(topic)
        if found is None:
            found = self.reads[topic] = ReadFigures()
        return found

    def add(self, other: ClientFigures) -> None:
        """Add what another client of the group counted; its backlogs are not among that."""
        for topic, sends in list(other.sends.items()):
            self.of_sends(topic).add(sends)
        for topic, reads in list(other.reads.items()):
            self.of_reads(topic).add(reads)
        self.checks.update(dict(other.checks))
