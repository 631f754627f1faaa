"""The open transactions, in memory. Derived from the half queue, the op queue and the log; rebuilt at every start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from msgspec import Struct

from gantrymq.errors import InvariantViolated, StoreError
from gantrymq.transactions.rules.states import TRANSITIONS, Event, State, after
from gantrymq.transactions.table.decisions import Decision, DecisionLog

NOT_NOTED: Final = -1
"""Instead of the immunity its sender asked for: a copy that an Apache broker put back, which has no notes."""


Waiting = Callable[["OpenHalf", StoreError | None], None]
"""Called when a write has ended, with None or the error."""


class OpenHalf(Struct, gc=False, eq=False):
    """One transaction without a durable outcome. The only mutable thing of this package, owned by its table.

    A million of them may be open: so it is a struct that the collector does not look at, and texts that many have in
    common are shared (``TransactionTable.add``). ``waiting`` is emptied when a write ends, so that no cycle stays.
    """

    queue_offset: int
    """Of the first copy, in the half queue: the transaction's key. From here to ``stored_at`` nothing changes."""
    log_offset: int
    """Of the first copy."""
    group: str
    unique_key: str
    real_topic: str
    real_queue_id: int
    stored_at: int
    """Store time of the first copy, ms since 1970 by this broker's clock: all ages are counted from it."""
    immunity_ms: int
    state: State
    own_immunity_ms: int = 0
    """Immunity that its sender asked for; 0: none, so it has the broker's; NOT_NOTED: it is a copy."""
    copies: tuple[tuple[int, int], ...] = ()
    """(queue offset, log offset) of the later copies that an Apache broker put back, in order."""
    record: bytes | None = None
    """The half itself as it is stored, while memory allows."""
    waiting: list[Waiting] | None = None
    """What is called when the write under way has ended, in order."""
    immune_until: float = 0.0
    """Monotonic seconds of the end of the immunity: a jump of the wall clock neither shortens nor prolongs it."""
    due: float = -1.0
    """Monotonic seconds of the next look at it; -1: none. Outdated entries of DueTimes differ from it."""
    times_asked: int = 0
    """Checks handed to a live producer since the broker started."""
    unknown_answers: int = 0
    answer_deadline: float = 0.0
    """Monotonic seconds until which the answer to the last check is waited for; 0: no check outstanding."""
    has_turn: bool = False
    """Whether it counts among the checks that its group has to answer."""
    in_line: bool = False
    """Whether it waits until its group can answer one check more."""
    sender_gone: bool = False
    """Whether it has decisive checkers and its sender's connection closed and did not come back in time."""
    sender: str = ""
    """The client id of its sender, when it has decisive checkers and the sender said who it is."""
    looked_in_vain: int = 0
    """How many times in a row no member of the group was online."""
    size: int = 0
    """Bytes of the first copy in the log; 0: unknown."""
    tags_code: int | None = None
    """Of the final message; None: it is still to be found in the properties."""

    @property
    def place(self) -> tuple[int, int]:
        """(queue offset, log offset) of the first copy."""
        return self.queue_offset, self.log_offset

    def queue_offsets(self) -> list[int]:
        """Half queue offsets of all copies."""
        return [self.queue_offset, *(queue_offset for queue_offset, _ in self.copies)]

    def newest(self) -> tuple[int, int]:
        """(queue offset, log offset) of the newest copy: the one that an Apache broker would use."""
        return self.copies[-1] if self.copies else (self.queue_offset, self.log_offset)

    def lies_at(self, queue_offset: int, log_offset: int) -> bool:
        return (queue_offset == self.queue_offset and log_offset == self.log_offset) or (
            (queue_offset, log_offset) in self.copies
        )

    def take(self, event: Event) -> None:
        """Enter the next state; InvariantViolated when the event is illegal in this state."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            self.state = after(self.state, event)  # raises


_OPEN: Final = State.OPEN
KEPT_RECORDS_BYTES: Final = 8 * 1024 * 1024
"""Halves are kept in memory until so much was stored behind them (and less than twice as much), so that a commit soon
after the half needs no read. Those that stay open longer are read: they must not take the place of the others."""
END_BYTES: Final = 512
"""Of the log for the end of a half, beside its message: an op message, and entries of queues."""
UNKNOWN_BYTES: Final = 4096
"""What a half is taken for whose size nobody noted: notes of earlier versions."""
RECORD_BYTES: Final = 200
"""Of memory for a kept half beside its record."""
SHARED_TEXTS: Final = 10_000
"""Names of groups and topics that are shared; brokers have fewer."""


class TransactionTable:
    """Open halves by half queue offset and by (group, UNIQ_KEY); decisions of the ended ones as one byte each."""

    def __init__(self, decisions: DecisionLog) -> None:
        self.decisions: Final = decisions
        self._halves: dict[int, OpenHalf] = {}
        """By the first copy's queue offset, in its order."""
        self._by_copy: dict[int, OpenHalf] = {}
        """By the later copies' queue offsets; nearly always empty."""
        self._by_key: dict[str, dict[str, OpenHalf]] = {}
        """By group and UNIQ_KEY; a group is there while it has open halves."""
        self._without_key: dict[str, int] = {}
        """By group: how many have no UNIQ_KEY; nearly always empty."""
        self._by_topic: dict[str, int] = {}
        """How many have this real topic; 0 for a topic that had some."""
        self._texts: dict[str, str] = {}
        """Groups and topics that were met: one text for all halves."""
        self._kept_before: list[OpenHalf] = []
        self._kept: list[OpenHalf] = []
        """The halves whose records are kept, in two generations, ended ones among them."""
        self._open_bytes = 0
        """Of all halves, in the log."""
        self._kept_bytes = 0
        """Of the younger generation."""

    def __len__(self) -> int:
        return len(self._halves)

    def __iter__(self) -> Iterator[OpenHalf]:
        return iter(self._halves.values())

    def __contains__(self, queue_offset: int) -> bool:
        return queue_offset in self._halves

    def bytes_to_end(self) -> int:
        """What the log grows by at most if every half is committed or parked now."""
        return self._open_bytes + END_BYTES * len(self._halves)

    def get(self, queue_offset: int) -> OpenHalf | None:
        """The half whose first copy has this queue offset."""
        return self._halves.get(queue_offset)

    def add(self, half: OpenHalf, record: bytes | None = None) -> None:
        """Take in a half; its first copies come in the order of the half queue."""
        queue_offset = half.queue_offset
        if self._halves.setdefault(queue_offset, half) is not half:
            raise InvariantViolated("a half message enters the table once")
        for copy_offset, _ in half.copies:
            self._by_copy[copy_offset] = half
        self._open_bytes += half.size or UNKNOWN_BYTES
        texts, key = self._texts, half.unique_key
        if len(texts) > SHARED_TEXTS:
            texts.clear()
        half.group = group = texts.setdefault(half.group, half.group)
        half.real_topic = topic = texts.setdefault(half.real_topic, half.real_topic)
        self._by_topic[topic] = self._by_topic.get(topic, 0) + 1
        if key:
            of_group = self._by_key.get(group)
            if of_group is None:
                of_group = self._by_key[group] = {}
            of_group[key] = half
        else:
            self._without_key[group] = self._without_key.get(group, 0) + 1
        if record is not None:
            half.record = record
            self._kept.append(half)
            self._kept_bytes += len(record) + RECORD_BYTES
            if self._kept_bytes > KEPT_RECORDS_BYTES:
                self._forget_records()

    def add_run(self, halves: Sequence[OpenHalf], records: Sequence[bytes]) -> None:
        """``add`` of halves of one group and one topic, in order; each has a key of its own (``has_none_of``)."""
        texts, first = self._texts, halves[0]
        if len(texts) > SHARED_TEXTS:
            texts.clear()
        group = texts.setdefault(first.group, first.group)
        topic = texts.setdefault(first.real_topic, first.real_topic)
        by_offset, of_group = self._halves, self._by_key.setdefault(group, {})
        for half, record in zip(halves, records, strict=True):
            if by_offset.setdefault(half.queue_offset, half) is not half:
                raise InvariantViolated("a half message enters the table once")
            half.group, half.real_topic = group, topic
            self._open_bytes += half.size or UNKNOWN_BYTES
            of_group[half.unique_key] = half
            half.record = record
            self._kept.append(half)
            self._kept_bytes += len(record) + RECORD_BYTES
            if self._kept_bytes > KEPT_RECORDS_BYTES:
                self._forget_records()
        self._by_topic[topic] = self._by_topic.get(topic, 0) + len(halves)

    def has_none_of(self, group: str, unique_keys: Collection[str]) -> bool:
        """Whether no half of a group has one of these keys, in whatever state it is."""
        of_group = self._by_key.get(group)
        return of_group is None or of_group.keys().isdisjoint(unique_keys)

    def _forget_records(self) -> None:
        for half in self._kept_before:
            half.record = None
        self._kept_before, self._kept = self._kept, []
        self._kept_bytes = 0

    def to_join(self, group: str, unique_key: str) -> OpenHalf | None:
        """The undecided half that a retry of the same send joins. After a decision the key starts a new transaction."""
        of_group = self._by_key.get(group) if unique_key else None
        half = of_group.get(unique_key) if of_group is not None else None
        return half if half is not None and half.state <= _OPEN else None

    def with_key(self, unique_key: str) -> list[OpenHalf]:
        """The open halves with this UNIQ_KEY, of every group."""
        return [of_group[unique_key] for of_group in self._by_key.values() if unique_key in of_group]

    def at(self, queue_offset: int, log_offset: int) -> OpenHalf | None:
        """The open half message that has a copy at exactly this place."""
        half = self._halves.get(queue_offset)
        if half is not None and half.log_offset == log_offset:
            return half
        half = half or self._by_copy.get(queue_offset)
        return half if half is not None and half.lies_at(queue_offset, log_offset) else None

    def end(self, half: OpenHalf, decision: Decision) -> None:
        """The decision is durable: the half leaves the table, its byte stays."""
        self.decisions[half.queue_offset] = decision
        for queue_offset, _ in half.copies:
            self.decisions[queue_offset] = decision
        self.remove(half)

    def end_run(self, halves: Sequence[OpenHalf], decision: Decision) -> None:
        """``end`` of halves of one group and one topic that have keys and no copies."""
        by_offset, first = self._halves, halves[0]
        self.decisions.decide([half.queue_offset for half in halves], decision)
        of_group = self._by_key.get(first.group, {})
        for half in halves:
            queue_offset, key = half.queue_offset, half.unique_key
            self._open_bytes -= half.size or UNKNOWN_BYTES
            del by_offset[queue_offset]
            if of_group.get(key) is half:
                del of_group[key]
            half.record = None
            half.due = -1.0
        if not of_group:
            self._by_key.pop(first.group, None)
        self._by_topic[first.real_topic] -= len(halves)

    def remove(self, half: OpenHalf) -> None:
        """Drop a half that was decided or never became durable."""
        del self._halves[half.queue_offset]
        self._open_bytes -= half.size or UNKNOWN_BYTES
        for queue_offset, _ in half.copies:
            self._by_copy.pop(queue_offset, None)
        self._by_topic[half.real_topic] -= 1
        group, key = half.group, half.unique_key
        of_group = self._by_key.get(group)
        if not key:
            self._without_key[group] -= 1
            if not self._without_key[group]:
                del self._without_key[group]
        elif of_group is not None and of_group.get(key) is half:
            del of_group[key]
            if not of_group:
                del self._by_key[group]
        half.record = None
        half.due = -1.0

    def by_topic(self) -> dict[str, int]:
        """How many halves each real topic has; 0 for a topic that had some."""
        return dict(self._by_topic)

    def by_group(self) -> dict[str, int]:
        """How many halves each producer group has that has any; of two with one UNIQ_KEY only the later is counted."""
        found = {group: len(halves) for group, halves in self._by_key.items()}
        for group, number in self._without_key.items():
            found[group] = found.get(group, 0) + number
        return found

    def oldest(self) -> OpenHalf | None:
        """The half that was stored first."""
        return next(iter(self._halves.values()), None)

    def newest(self) -> OpenHalf | None:
        """The half that was stored last."""
        return next(reversed(self._halves.values()), None)

    def oldest_of(self, group: str) -> OpenHalf | None:
        """The half of a group that was stored first, of those with a UNIQ_KEY."""
        return next(iter(self._by_key.get(group, {}).values()), None)

    def first_needed(self, end: int) -> int:
        """The half queue offset an Apache broker must start at to find every open half; ``end`` when none is open."""
        first = end
        for half in self._halves.values():
            if not half.copies:
                first = min(first, half.queue_offset)
                break  # in order of the half queue
            first = min(first, half.newest()[0])
        return first
