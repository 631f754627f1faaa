"""Undecided transactions of a cluster page by page, and a summary of them.

Our brokers have a request for it, so a page costs the same whether ten transactions are open or a million. An Apache
broker has none: there the first records are read, and the page says that it is so.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.admin.transaction_search import TransactionSearch, Wanted
from gantrymq.errors import ConfigError, RemoteProtocolError, TimedOut, Unreachable
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Header
from gantrymq.protocol.headers.tools import ListTransactions
from gantrymq.transactions.history.diagnosis import Transaction
from gantrymq.transactions.history.explanation import iso
from gantrymq.transactions.rules.states import State

T = TypeVar("T")

READ_AT_MOST: Final = 2_000
"""Halves of an Apache broker that are read for a page."""
ROUNDS_MAX: Final = 10
"""Questions to one broker for one page: each looks at a bounded number of transactions, and with a filter may find
none."""
_KNOWN: Final = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
_END: Final = "end"


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a page; times as ISO 8601 in UTC."""

    id: str
    state: str
    group: str
    topic: str
    queue: int
    keys: str
    tags: str
    age_ms: int
    born_at: str | None
    stored_at: str
    born_host: str
    checks: int | None
    producers_online: int | None
    next_check_at: str | None
    why: str
    advice: str
    half_queue_offset: int
    half_offset_message_id: str
    broker: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which transactions are wanted."""

    state: State = State.OPEN
    group: str | None = None
    topic: str | None = None
    broker: str | None = None
    min_age_ms: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some transactions, the oldest first."""

    rows: list[Undecided]
    cursor: str | None
    """For the next page; None: this is the last one."""
    notes: list[str] = field(default_factory=list)
    """What could not be found out, and about which broker."""
    gone: list[str] = field(default_factory=list)
    """Brokers that did not answer; whether they have transactions is unknown."""


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The open transactions of one producer group on one broker."""

    group: str
    open: int
    producers_online: int
    oldest_age_ms: int | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The transactions of one broker."""

    now_ms: int
    open: int
    oldest_age_ms: int | None
    parked_records: int
    """Parked messages, those that were resumed since included."""
    groups: list[GroupSummary]
    groups_more: int
    topics: dict[str, int]
    counts: dict[str, int]
    """Since the broker started, by the names of TransactionCounts."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What one broker answered."""

    rows: list[Undecided]
    next: str
    note: str = ""
    gone: bool = False


class TransactionPages:
    """Every method raises ConfigError, Unreachable, TimedOut or RequestRejected; ``page`` the two in the middle only
    when no name server answers."""

    def __init__(self, asking: Asking, search: TransactionSearch) -> None:
        self._asking = asking
        self._search = search

    async def page(self, wanted: Filter, count: int = 50, cursor: str | None = None) -> Page:
        """``cursor``: of the page before; it names for each broker where to go on."""
        masters = await self._asking.chosen(wanted.broker)
        starts = read_cursor(cursor)
        asked = {name: address for name, address in masters.items() if starts.get(name, "-1") != _END}
        parts = await asyncio.gather(
            *(
                self._unless_gone(name, address, wanted, count, starts.get(name, "-1"))
                for name, address in asked.items()
            )
        )
        return merged(dict(zip(asked, parts, strict=True)), starts, count)

    async def summaries(self) -> dict[str, Summary | None]:
        """Broker name to summary; None for a broker that has none to give: Apache's."""
        masters = await self._asking.masters()
        found = await asyncio.gather(*(self.summary(address) for address in masters.values()))
        return dict(zip(masters, found, strict=True))

    async def summary(self, address: str) -> Summary | None:
        """Of one broker."""
        if self._asking.endpoint.speaks_java(address):
            return None
        return await self._json(address, RequestCode.SUMMARIZE_TRANSACTIONS, None, "summary of transactions", Summary)

    async def _unless_gone(self, name: str, address: str, wanted: Filter, count: int, start: str) -> _Part:
        """A broker that is gone must not hide the transactions of the others."""
        try:
            return await self._of_broker(name, address, wanted, count, start)
        except (Unreachable, TimedOut) as error:
            return _Part([], start, f"{name} does not answer, and its transactions are not shown: {error}", True)

    async def _of_broker(self, name: str, address: str, wanted: Filter, count: int, start: str) -> _Part:
        rows: list[Undecided] = []
        for _ in range(ROUNDS_MAX):
            header = ListTransactions(
                state=wanted.state.text, count=count - len(rows), after=int(start), min_age_ms=wanted.min_age_ms,
                group=wanted.group, topic=wanted.topic,
            )  # fmt: skip
            answer = None
            if not self._asking.endpoint.speaks_java(address):
                what = "page of transactions"
                answer = await self._json(address, RequestCode.LIST_TRANSACTIONS, header, what, _Answer)
            if answer is None:
                return await self._read(name, address, wanted, count, int(start))
            rows += [msgspec.structs.replace(row, broker=name, address=address) for row in answer.transactions]
            start = _END if answer.next is None else str(answer.next)
            if answer.next is None or len(rows) >= count:
                return _Part(rows, start)
        return _Part(rows, start, f"{name} is still searching: go on to the next page")

    async def _read(self, name: str, address: str, wanted: Filter, count: int, after: int) -> _Part:
        """From the records of a broker that does not know the request."""
        which = Wanted(wanted.state, wanted.group, wanted.topic)
        found = await self._search.undecided(name, address, None, READ_AT_MOST, which)
        rows = [
            row_of(one, name, address)
            for one in found
            if one.state is wanted.state
            and wanted.group in (None, one.group)
            and wanted.topic in (None, one.topic)
            and one.age_ms >= wanted.min_age_ms
            and one.half.queue_offset > after
        ]
        rows.sort(key=lambda row: row.half_queue_offset)
        note = (
            f"{name} is a broker without lists of transactions (Apache's, or an older one): only its first "
            f"{READ_AT_MOST} half messages were read, decisions per second and conflicts are not known"
        )
        more = len(rows) > count
        return _Part(rows[:count], str(rows[count - 1].half_queue_offset) if more else _END, note)

    async def _json(self, address: str, code: RequestCode, header: Header | None, what: str, kind: type[T]) -> T | None:
        """The answer; None when the broker does not know the question."""
        answer = await self._asking.ask(address, code, header, what=what, accept=_KNOWN, timeout_ms=10_000)
        if answer.code != ResponseCode.SUCCESS:
            return None
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"{address} did not answer with a {what}: {error}") from error


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    transactions: list[Undecided]
    next: int | None


def merged(parts: Mapping[str, _Part], starts: Mapping[str, str], count: int) -> Page:
    """The oldest ``count`` rows of all brokers, and where each broker goes on."""
    # A broker's own rows stay in the order of its half queue, whatever its clock did: its cursor depends on that.
    together = heapq.merge(*(part.rows for part in parts.values()), key=lambda row: row.stored_at)
    taken = list(islice(together, count))
    cursors = dict(starts)
    for name, part in parts.items():
        mine = [row for row in taken if row.broker == name]
        if len(mine) == len(part.rows):
            cursors[name] = part.next
        elif mine:
            cursors[name] = str(max(row.half_queue_offset for row in mine))
        else:
            cursors[name] = starts.get(name, "-1")
    notes = [part.note for part in parts.values() if part.note]
    gone = {name for name, part in parts.items() if part.gone}
    done = all(cursor == _END for name, cursor in cursors.items() if name not in gone)
    return Page(taken, None if done else write_cursor(cursors), notes, sorted(gone))


def read_cursor(text: str | None) -> dict[str, str]:
    """Broker to place. Raises ConfigError for a text that no page gave."""
    found: dict[str, str] = {}
    for part in (text or "").split(";"):
        name, mark, place = part.rpartition(":")
        if part and (not mark or not (place == _END or place.lstrip("-").isdecimal())):
            raise ConfigError(f"{text!r} is no place in the list; start at the first page")
        if part:
            found[name] = place
    return found


def write_cursor(places: Mapping[str, str]) -> str:
    return ";".join(f"{name}:{place}" for name, place in sorted(places.items()))


def row_of(found: Transaction, broker: str, address: str) -> Undecided:
    """A transaction that was found in the records."""
    half = found.half
    return Undecided(
        id=found.transaction_id, state=found.state.text, group=found.group, topic=found.topic, queue=found.queue_id,
        keys=half.keys, tags=half.tags, age_ms=found.age_ms, born_at=iso(half.born_ms),
        stored_at=iso(half.stored_ms) or "", born_host=half.born_host,
        checks=found.checks, producers_online=found.producers, next_check_at=iso(found.next_check_ms), why=found.why,
        advice=found.advice, half_queue_offset=half.queue_offset, half_offset_message_id=half.message_id,
        broker=broker, address=address,
    )  # fmt: skip


def by_group(summaries: Iterable[Summary]) -> list[GroupSummary]:
    """The groups of all brokers, the one with the oldest open transaction first."""
    found: dict[str, GroupSummary] = {}
    for summary in summaries:
        for row in summary.groups:
            known = found.get(row.group)
            if known is not None:
                ages = [age for age in (known.oldest_age_ms, row.oldest_age_ms) if age is not None]
                row = GroupSummary(
                    group=row.group, open=known.open + row.open,
                    producers_online=max(known.producers_online, row.producers_online),
                    oldest_age_ms=max(ages, default=None),
                )  # fmt: skip
            found[row.group] = row
    return sorted(found.values(), key=lambda row: row.oldest_age_ms or 0, reverse=True)
