"""Undecided transactions page by page, and a summary of them, for tools. Nothing is changed here.

A million transactions may be open. So nothing here reads all of them: a page is found from a cursor on, each request
looks at a bounded number of halves, and the summary has counts that are kept anyway.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import none_of_them
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.transactions.parked import was_resumed
from gantrymq.broker.transactions.ports import ProducerGroups
from gantrymq.message.system_topics import PARKED
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.history.diagnosis import CheckProgress, Surroundings, Transaction, diagnose
from gantrymq.transactions.history.evidence import HalfRecord
from gantrymq.transactions.history.explanation import iso
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable

COUNT_MAX: Final = 500
"""Transactions of one page; each is read from the log."""
OPEN_LOOKED_AT_MAX: Final = 100_000
"""Half queue offsets that one request looks at; then it answers with a cursor and what it has."""
PARKED_LOOKED_AT_MAX: Final = 2_000
"""The same of parked ones, of which each is read."""
HALVES_AT_ONCE: Final = 2_000
RECORDS_AT_ONCE: Final = 32
"""Looked at, or read, between two pauses, so that other work is not delayed."""
SPARSE: Final = 4
"""Offsets for each open half, from which on the others are not looked up one by one."""
GROUPS_MAX: Final = 1_000
"""Producer groups in a summary, those with the oldest open transaction first."""


Told: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which transactions a page shall have."""

    state: State = State.OPEN
    group: str | None = None
    topic: str | None = None
    min_age_ms: int = 0
    """Only those that were stored so long ago."""
    after: int = -1
    """The cursor: the queue offset of the last one of the page before."""
    count: int = 50
    told: Told = none_of_them
    """Whether the reader may hear of the transactions of a topic; those of others are left out."""


class TransactionPages:
    """Pages of undecided transactions, the oldest first, and a summary."""

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        coordinator: TransactionCoordinator,
        producers: ProducerGroups,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._coordinator = coordinator
        self._producers = producers
        self._clock = clock

    async def page(self, wanted: Wanted) -> dict[str, Any]:
        """``transactions``: rows; ``next``: the cursor for more, None at the end. With a filter there may be fewer rows
        than asked for, even none, and still a cursor. Raises Refused.
        """
        if wanted.state not in (State.OPEN, State.PARKED):
            raise Refused(Refusal.PARAMETER_INVALID, "ask for open or for parked transactions")
        if not 1 <= wanted.count <= COUNT_MAX:
            raise Refused(Refusal.PARAMETER_INVALID, f"ask for 1 to {COUNT_MAX} transactions at once")
        if wanted.state is State.OPEN:
            return await self._open_page(wanted)
        return await self._parked_page(wanted)

    async def _open_page(self, wanted: Wanted) -> dict[str, Any]:
        now_ms = self._clock.wall_ms()
        latest_ms = now_ms - wanted.min_age_ms
        chosen: list[OpenHalf] = []
        for number, (offset, half) in enumerate(behind(self._coordinator.table, wanted.after), 1):
            if half is not None:
                if half.stored_at > latest_ms:
                    break
                if is_wanted(half, wanted):
                    chosen.append(half)
            if len(chosen) == wanted.count or number == OPEN_LOOKED_AT_MAX:
                newest = self._coordinator.table.newest()
                more = newest is not None and newest.queue_offset > offset
                return await self._answer_open(chosen, offset if more else None)
            if number % HALVES_AT_ONCE == 0:
                await self._clock.sleep(0)
        return await self._answer_open(chosen, None)

    async def _answer_open(self, chosen: list[OpenHalf], cursor: int | None) -> dict[str, Any]:
        records: list[HalfRecord] = []
        progress: dict[int, CheckProgress] = {}
        now_ms = self._clock.wall_ms()
        for number, half in enumerate(chosen, 1):
            stored = self._store.read(half.log_offset)
            record = None if stored is None else HalfRecord.of(stored)
            if record is not None:
                records.append(record)
                progress[half.queue_offset] = progress_of(half, self._clock, now_ms)
            if number % RECORDS_AT_ONCE == 0:
                await self._clock.sleep(0)
        found = diagnose(records, {}, (), (), self._surroundings(records, now_ms, progress))
        found.sort(key=lambda transaction: transaction.half.queue_offset)
        return {"transactions": [_row(transaction) for transaction in found], "next": cursor}

    async def _parked_page(self, wanted: Wanted) -> dict[str, Any]:
        first, end = self._store.queue_range(PARKED, 0)
        latest_ms = self._clock.wall_ms() - wanted.min_age_ms
        start = max(first, wanted.after + 1)
        last = min(start + PARKED_LOOKED_AT_MAX, end)
        chosen: list[HalfRecord] = []
        offset = start
        while offset < last and len(chosen) < wanted.count:
            entry = self._store.entry(PARKED, 0, offset)
            stored = None if entry is None else self._store.read(entry.log_offset)
            half = None if stored is None else HalfRecord.of(stored)
            if half is not None and self._is_wanted(half, wanted, latest_ms) and not was_resumed(self._store, half):
                chosen.append(half)
            offset += 1
            if offset % RECORDS_AT_ONCE == 0:
                await self._clock.sleep(0)
        found = diagnose((), {}, chosen, (), self._surroundings(chosen, self._clock.wall_ms(), {}))
        found.sort(key=lambda transaction: transaction.half.queue_offset)
        return {"transactions": [_row(one) for one in found], "next": offset - 1 if offset < end else None}

    def _is_wanted(self, half: HalfRecord, wanted: Wanted, latest_ms: int) -> bool:
        fits = wanted.group in (None, half.group) and _of(wanted.topic, half.real_topic)
        return fits and half.born_ms <= latest_ms and wanted.told(half.real_topic)

    # The summary.

    def summary(self, told: Told) -> dict[str, Any]:
        """How many are open and parked, by whom, and what was decided since the broker started. ``told``: see
        ``Wanted``; topics of others are not named.
        """
        now_ms, table, counts = self._clock.wall_ms(), self._coordinator.table, self._coordinator.counts
        oldest = table.oldest()
        by_group = table.by_group()
        groups = [
            {
                "group": group, "open": number, "producers_online": len(self._producers.members(group)),
                "oldest_age_ms": _age(table.oldest_of(group), now_ms),
            }
            for group, number in by_group.items()
        ]  # fmt: skip
        groups.sort(key=lambda row: row["oldest_age_ms"] or 0, reverse=True)
        latencies = list(counts.commit_latency.values())
        return {
            "now_ms": now_ms,
            "open": len(table),
            "oldest_age_ms": _age(oldest, now_ms),
            "parked_records": self._coordinator.parked.waiting(),
            "groups": groups[:GROUPS_MAX],
            "groups_more": max(len(groups) - GROUPS_MAX, 0),
            "topics": {topic: number for topic, number in table.by_topic().items() if number and told(topic)},
            "counts": {
                "halves": counts.halves, "commits": counts.commits, "rollbacks": counts.rollbacks,
                "decided_by_check": counts.decided_by_check, "conflicts": counts.conflicts, "refused": counts.refused,
                "unknowns": counts.unknowns, "checks_sent": counts.checks_sent,
                "checks_unanswered": counts.checks_unanswered, "nobody_online": counts.nobody_online,
                "parked": counts.parked, "commit_ms_sum": round(sum(latency.sum for latency in latencies)),
            },
        }  # fmt: skip

    def _surroundings(
        self, halves: list[HalfRecord], now_ms: int, progress: dict[int, CheckProgress]
    ) -> Surroundings:  # fmt: skip
        config = self._config.transactions
        return Surroundings(
            now_ms=now_ms,
            timeout_ms=config.transaction_time_out,
            interval_ms=config.transaction_check_interval,
            check_max=config.transaction_check_max,
            producers={group: len(self._producers.members(group)) for group in {half.group for half in halves}},
            progress=progress,
        )


def behind(table: TransactionTable, after: int) -> Iterator[tuple[int, OpenHalf | None]]:
    """Half queue offsets behind a place, each with the half that is open there. The table may change meanwhile.

    Where most offsets are open, each is looked up; where few are, those few are gone through.
    """
    oldest, newest = table.oldest(), table.newest()
    if oldest is None or newest is None:
        return
    start = max(after + 1, oldest.queue_offset)
    if newest.queue_offset - start < SPARSE * len(table):
        for offset in range(start, newest.queue_offset + 1):
            yield offset, table.get(offset)
        return
    halves = list(table)
    for half in islice(halves, bisect_right(halves, after, key=lambda half: half.queue_offset), None):
        yield half.queue_offset, half


def is_wanted(half: OpenHalf, wanted: Wanted) -> bool:
    fits = wanted.group in (None, half.group) and _of(wanted.topic, half.real_topic)
    return half.state is State.OPEN and fits and wanted.told(half.real_topic)


def progress_of(half: OpenHalf, clock: Clock, now_ms: int) -> CheckProgress:
    """What is known of an open half beside its record."""
    due = None if half.due < 0 else now_ms + max(round((half.due - clock.monotonic()) * 1000), 0)
    return CheckProgress(half.times_asked, half.unknown_answers, due)


def _of(wanted: str | None, topic: str) -> bool:
    return wanted is None or wanted == topic


def _age(half: OpenHalf | None, now_ms: int) -> int | None:
    return None if half is None else max(now_ms - half.stored_at, 0)


def _row(found: Transaction) -> dict[str, Any]:
    """One transaction of a page; the same fields as in an explanation."""
    half = found.half
    return {
        "id": found.transaction_id, "state": found.state.text, "group": found.group, "topic": found.topic,
        "queue": found.queue_id, "keys": half.keys, "tags": half.tags, "age_ms": found.age_ms,
        "born_at": iso(half.born_ms), "stored_at": iso(half.stored_ms), "born_host": half.born_host,
        "checks": found.checks,
        "producers_online": found.producers, "next_check_at": iso(found.next_check_ms), "why": found.why,
        "advice": found.advice, "half_queue_offset": half.queue_offset, "half_offset_message_id": half.message_id,
    }  # fmt: skip
