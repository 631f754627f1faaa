"""Looks at one broker: figures, settings, and undecided transactions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from gantrymq.access.settings import SECRET_KEYS
from gantrymq.admin import Admin
from gantrymq.admin.brokers import BrokerPlace
from gantrymq.admin.transaction_pages import Filter, Page
from gantrymq.doctor.facts import BrokerFacts, OpenGroup, ParkedGroup
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.runtime.clock import Clock
from gantrymq.transactions.rules.states import State

T = TypeVar("T")

COUNTED: Final = 200
"""Parked transactions that are counted; of an Apache broker open ones, too."""
_RUNTIME: Final = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
_HALF_SECOND_MS: Final = 500


async def look_at_broker(admin: Admin, place: BrokerPlace, clock: Clock) -> BrokerFacts:
    """What it says now. No answer is a fact."""
    broker = BrokerFacts(place.name, place.address, place.cluster, place.broker_id)
    unseen: list[str] = []
    began, began_ms = clock.monotonic(), clock.wall_ms()
    try:
        figures = await admin.brokers.runtime(place.address)
    except RequestRejected as error:
        unseen.append(f"its figures: {error}")
    except GantryError as error:
        return replace(broker, error=why(error, place.address))
    else:
        took_ms = round((clock.monotonic() - began) * 1000)
        broker = _with_figures(broker, figures, began_ms + took_ms // 2, took_ms // 2)
    settings = await _told(lambda: admin.brokers.config(place.address), "its settings", unseen)
    if settings is not None:
        broker = replace(broker, settings=without_secrets(settings), answers_as=settings.get("brokerName", ""))
    if place.broker_id == 0:
        broker = await _with_transactions(admin, broker, unseen)
    return replace(broker, unseen=tuple(unseen))


def why(error: GantryError, address: str) -> str:
    """The reason alone: the address stands beside it in every sentence."""
    return str(error).removeprefix(f"cannot reach {address}: ") or type(error).__name__


async def name_at(admin: Admin, address: str) -> str:
    """The name of the broker that answers at an address; empty when none does."""
    try:
        return (await admin.brokers.config(address)).get("brokerName", "")
    except GantryError:
        return ""


def _with_figures(broker: BrokerFacts, figures: dict[str, str], here_ms: int, doubt_ms: int) -> BrokerFacts:
    there_ms = clock_of(figures)
    version = figures.get("brokerVersionDesc", "")
    return replace(
        broker,
        version=version,
        java=not version.startswith("GantryMQ"),
        clock_ahead_ms=None if there_ms is None else there_ms - here_ms,
        clock_doubt_ms=doubt_ms + _HALF_SECOND_MS,
        refuses=figures.get("writesRefused", ""),
        disk_ratio=ratio_of(figures.get("commitLogDiskRatio", "")),
        log_end=number_in(figures.get("commitLogMaxOffset")),
    )


def clock_of(figures: dict[str, str]) -> int | None:
    """The wall clock of a broker when it answered, ms since 1970, half a second more or less: when it started, and how
    long ago that is in whole seconds. Brokers say it nowhere else, Apache's included.
    """
    boot_ms, runtime = number_in(figures.get("bootTimestamp")), _RUNTIME.search(figures.get("runtime", ""))
    if boot_ms is None or runtime is None:
        return None
    days, hours, minutes, seconds = (int(part) for part in runtime.groups())
    return boot_ms + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + _HALF_SECOND_MS


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings that may be printed. Our brokers never tell the others; Apache's do."""
    return {key: value for key, value in settings.items() if key not in SECRET_KEYS}


def number_in(text: str | None) -> int | None:
    """A whole number; None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None


def ratio_of(text: str) -> float | None:
    """The first number of a text, 0 to 1: 5.x brokers write one for each path."""
    match = re.match(r"\d+(\.\d+)?", text)
    return float(match[0]) if match else None


async def _with_transactions(admin: Admin, broker: BrokerFacts, unseen: list[str]) -> BrokerFacts:
    pages = admin.transactions.pages
    summary = await _told(lambda: pages.summary(broker.address), "its open transactions", unseen)
    if summary is not None:
        groups = tuple(
            OpenGroup(group.group, group.open, group.producers_online, group.oldest_age_ms or 0)
            for group in summary.groups
            if group.open
        )
        broker = replace(
            broker, halves=summary.counts.get("halves"), open_groups=groups, open_groups_more=summary.groups_more
        )
        if not summary.parked_records:
            return broker
    elif broker.java:
        page = await _told(lambda: _undecided(admin, broker, State.OPEN), "its open transactions", unseen)
        broker = replace(broker, open_groups=() if page is None else _open_groups(page))
    page = await _told(lambda: _undecided(admin, broker, State.PARKED), "its parked transactions", unseen)
    if page is not None:
        parked = Counter(row.group for row in page.rows)
        counted = tuple(ParkedGroup(group, count) for group, count in sorted(parked.items()))
        broker = replace(broker, parked=counted, parked_more=page.cursor is not None)
    return broker


async def _undecided(admin: Admin, broker: BrokerFacts, state: State) -> Page:
    return await admin.transactions.pages.page(Filter(state=state, broker=broker.address), COUNTED)


def _open_groups(page: Page) -> tuple[OpenGroup, ...]:
    groups = sorted({row.group for row in page.rows})
    rows = {group: [row for row in page.rows if row.group == group] for group in groups}
    return tuple(
        OpenGroup(group, len(its), its[0].producers_online, max(row.age_ms for row in its))
        for group, its in rows.items()
    )


async def _told(ask: Callable[[], Awaitable[T]], what: str, unseen: list[str]) -> T | None:
    """The answer; None when there is none, and then ``unseen`` says why."""
    try:
        return await ask()
    except GantryError as error:
        unseen.append(f"{what}: {error}")
        return None
