"""The open transactions, in memory. Derived from the half queue, the op queue and the log; rebuilt at every start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from gantrymq.errors import InvariantViolated
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Decision, DecisionLog
from gantrymq.transactions.table.open_half import OpenHalf

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
