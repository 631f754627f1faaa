"""The figures of the brokers over the last minutes: read at an interval, kept in memory, told to open pages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from gantrymq.admin import Admin
from gantrymq.admin.brokers import BrokerPlace
from gantrymq.admin.transaction_pages import Summary
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.console")

KEPT: Final = 150
"""Samples; 5 minutes at one every 2 s."""
WATCHERS_MAX: Final = 200
"""Pages that refresh themselves at the same time; more of them show what there was when they were opened."""
BROKER_TIMEOUT_S: Final = 8.0
GONE_KEPT_MS: Final = 3_600_000
"""A broker that no name server knows any more is shown for so long, with what it said last."""


@dataclass(frozen=True, slots=True)
class BrokerSample:
    """One broker at one time."""

    name: str
    address: str
    cluster: str = ""
    version: str = ""
    error: str = ""
    """Why nothing is known; empty: it answered."""
    denied: bool = False
    """It answered that this may not be seen."""
    answer_ms: float | None = None
    """How long it took to answer; measured here, network included."""
    put_total: int | None = None
    """Messages stored since midnight (or since it started); of rates of change only."""
    got_total: int | None = None
    disk_ratio: float | None = None
    disk_text: str = ""
    refuses: str = ""
    """Why it takes no messages, and what to do; empty: it takes them."""
    summary: Summary | None = None
    """None: a broker without one, Apache's."""
    at_ms: int = 0
    """When it was asked, ms since 1970."""
    last: BrokerSample | None = None
    """What it said before it ceased to answer; None: nothing, or it answers, or it may not be seen."""

    @property
    def known(self) -> BrokerSample | None:
        """What is known of it: what it says now, else what it said last."""
        return self.last if self.error else self


@dataclass(frozen=True, slots=True)
class Sample:
    """All brokers at one time."""

    at_ms: int
    at: float
    """Monotonic seconds."""
    brokers: tuple[BrokerSample, ...]
    error: str = ""
    """Why no broker could be asked."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened per second between two samples, over all brokers; None: unknown."""

    put: float | None = None
    got: float | None = None
    halves: float | None = None
    commits: float | None = None
    rollbacks: float | None = None
    conflicts: float | None = None
    checks: float | None = None
    decided: float | None = None
    """Commits and rollbacks."""
    commit_ms: float | None = None
    """Mean time from half message to commit, of those that were committed between the two."""
    open: float | None = None
    answer_ms: float | None = None
    disk_ratio: float | None = None


@dataclass(slots=True)
class Samples:
    """Takes samples while the console runs."""

    admin: Admin
    clock: Clock
    interval_s: float
    kept: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT))
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _watchers: int = 0
    _ended: bool = False
    _places: list[BrokerPlace] = field(default_factory=list)
    """The masters that the name servers knew when they answered last."""
    _last: dict[str, BrokerSample] = field(default_factory=dict)
    """By name: what each broker said when it answered last."""

    @property
    def newest(self) -> Sample | None:
        return self.kept[-1] if self.kept else None

    @property
    def span_s(self) -> float:
        """The time that a full plot covers."""
        return KEPT * self.interval_s

    async def run(self) -> None:
        """Until it is cancelled. Whoever watches is told then."""
        try:
            await self._take_all()
        finally:
            self._ended = True
            async with self._news:
                self._news.notify_all()

    async def _take_all(self) -> None:
        while True:
            try:
                self.kept.append(await self.take())
            except Exception:
                log.exception("the figures of the brokers could not be read")  # the next time, perhaps
            async with self._news:
                self._news.notify_all()
            await self.clock.sleep(self.interval_s)

    async def take(self) -> Sample:
        """One sample. Errors become part of it; of a broker that does not answer it keeps what was known."""
        at_ms, at, problem = self.clock.wall_ms(), self.clock.monotonic(), ""
        try:
            self._places = [place for place in await self.admin.brokers.places() if place.broker_id == 0]
        except GantryError as error:
            problem = str(error)  # the brokers themselves may well answer
        asked = (self._of_broker(at_ms, place.name, place.address, place.cluster) for place in self._places)
        taken = [self._with_last(one) for one in await asyncio.gather(*asked)]
        return Sample(at_ms, at, (*taken, *self._forgotten(at_ms, {one.name for one in taken})), problem)

    def _with_last(self, taken: BrokerSample) -> BrokerSample:
        if not taken.error:
            self._last[taken.name] = taken
            return taken
        if taken.denied:  # what was seen before may have been allowed then
            self._last.pop(taken.name, None)
        return replace(taken, last=self._last.get(taken.name))

    def _forgotten(self, at_ms: int, names: Collection[str]) -> Iterator[BrokerSample]:
        """Brokers that answered before and that no name server knows any more."""
        for name, last in list(self._last.items()):
            if name in names:
                continue
            if at_ms - last.at_ms > GONE_KEPT_MS:
                del self._last[name]
                continue
            why = "no name server knows it any more, so it is stopped or cannot reach them"
            yield BrokerSample(name, last.address, last.cluster, error=why, at_ms=at_ms, last=last)

    async def _of_broker(self, at_ms: int, name: str, address: str, cluster: str) -> BrokerSample:
        began = self.clock.monotonic()
        try:
            async with asyncio.timeout(BROKER_TIMEOUT_S):
                table = await self.admin.brokers.runtime(address)
                answer_ms = (self.clock.monotonic() - began) * 1000
                summary = await self.admin.transactions.pages.summary(address)
        except (GantryError, TimeoutError) as error:
            denied = isinstance(error, RequestRejected) and error.code == ResponseCode.NO_PERMISSION
            why = str(error) or f"{address} does not answer within {BROKER_TIMEOUT_S:g} s"
            return BrokerSample(name, address, cluster, error=why, denied=denied, at_ms=at_ms)
        return BrokerSample(
            name, address, cluster, at_ms=at_ms,
            version=table.get("brokerVersionDesc", ""),
            answer_ms=answer_ms,
            put_total=_number(table.get("msgPutTotalTodayNow")),
            got_total=_number(table.get("msgGetTotalTodayNow")),
            disk_ratio=_ratio(table.get("commitLogDiskRatio")),
            disk_text=table.get("commitLogDirCapacity", "").strip(" ."),
            refuses=table.get("writesRefused", ""),
            summary=summary,
        )  # fmt: skip

    def rates(self) -> list[Rates]:
        """Between each two neighbours, the oldest first; unknown ones lead, so that plots fill from the right."""
        found = [rates_between(one, other) for one, other in zip(self.kept, list(self.kept)[1:], strict=False)]
        return [Rates()] * (KEPT - 1 - len(found)) + found

    async def watch(self) -> AsyncIterator[Sample]:
        """Each new sample. Ends at once when too many watch."""
        if self._watchers >= WATCHERS_MAX:
            return
        self._watchers += 1
        try:
            while True:
                async with self._news:
                    if self._ended:
                        return
                    await self._news.wait()
                if self._ended:
                    return
                if self.newest is not None:
                    yield self.newest
        finally:
            self._watchers -= 1

    async def soon(self) -> None:
        """Wait for the first sample, but not long: a page shows what it has."""
        if self.newest is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2.0), self._news:
                    await self._news.wait_for(lambda: self.newest is not None)


def rates_between(before: Sample, after: Sample) -> Rates:
    """Per second. A broker counts that is in both samples; a total that went back (midnight, restart) is left out."""
    seconds = after.at - before.at
    old = {broker.address: broker for broker in before.brokers}
    pairs = [(old[new.address], new) for new in after.brokers if new.address in old and not new.error]
    if seconds <= 0 or not pairs:
        return Rates()
    counts = {
        key: _grown((_count(one, key), _count(two, key)) for one, two in pairs)
        for key in ("halves", "commits", "rollbacks", "conflicts", "checks_sent", "commit_ms_sum")
    }
    per_second = {key: None if value is None else value / seconds for key, value in counts.items()}
    put = _grown((one.put_total, two.put_total) for one, two in pairs)
    got = _grown((one.got_total, two.got_total) for one, two in pairs)
    commits, commit_ms = counts["commits"], counts["commit_ms_sum"]
    answers = [two.answer_ms for _, two in pairs if two.answer_ms is not None]
    return Rates(
        put=None if put is None else put / seconds,
        got=None if got is None else got / seconds,
        halves=per_second["halves"],
        commits=per_second["commits"],
        rollbacks=per_second["rollbacks"],
        decided=_sum(value for value in (per_second["commits"], per_second["rollbacks"]) if value is not None),
        conflicts=per_second["conflicts"],
        checks=per_second["checks_sent"],
        commit_ms=commit_ms / commits if commits and commit_ms is not None else None,
        open=_sum(two.summary.open for _, two in pairs if two.summary is not None),
        answer_ms=max(answers, default=None),
        disk_ratio=max((two.disk_ratio for _, two in pairs if two.disk_ratio is not None), default=None),
    )


def _count(broker: BrokerSample, key: str) -> int | None:
    return None if broker.summary is None else broker.summary.counts.get(key)


def _grown(pairs: Iterable[tuple[int | None, int | None]]) -> float | None:
    known = ((before, after) for before, after in pairs if before is not None and after is not None)
    return _sum(after - before for before, after in known if after >= before)


def _sum(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) if known else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _ratio(text: str | None) -> float | None:
    """The first number of a text: 5.x brokers write one for each path."""
    match = re.match(r"\d+(\.\d+)?", text or "")
    return float(match[0]) if match else None
