"""The transactions: what is open and why, one as a time line, and the figures that refresh themselves."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.transaction_pages import Filter, Summary, by_group
from gantrymq.console.answered import Answered
from gantrymq.console.parts import INCOMPLETE, Console, console_of, number_of, old_page_of, page, person_of, text_of
from gantrymq.console.plots import Line, plot
from gantrymq.console.reading import Reading, may_see_undecided
from gantrymq.console.samples import Rates, Sample
from gantrymq.errors import ConfigError, RequestRejected, Unreachable
from gantrymq.message.message import MessageView
from gantrymq.protocol.codes import ResponseCode
from gantrymq.transactions.rules.states import State

ROWS: Final = 50
ROWS_MAX: Final = 200
GROUPS_SHOWN: Final = 12
RUNS_SHOWN: Final = 5
EVENTS_FIRST: Final = 12
EVENTS_LAST: Final = 40
"""Of a transaction with many events, so many are shown; ``?all=1`` shows all."""
STATES: Final = {state.text: state for state in (State.OPEN, State.PARKED)}
AGES: Final = {"": "any age", "10": "over 10 s", "60": "over 1 min", "600": "over 10 min", "3600": "over 1 h",
               "86400": "over 1 day"}  # fmt: skip


async def show_list(request: Request) -> Response:
    """One page of the undecided ones, the oldest first."""
    console = console_of(request)
    wanted, count = filter_of(request), number_of(request, "rows", ROWS, ROWS_MAX) or ROWS
    if (found := text_of(request, "id")) is not None:
        return await show_one(request, found)
    cursor, person = text_of(request, "after"), person_of(request)
    found_page, _, outboxes = await asyncio.gather(
        console.admin.transactions.pages.page(wanted, count, cursor), console.samples.soon(), console.outboxes.shown()
    )
    if found_page.gone:
        setattr(request.state, INCOMPLETE, True)
        if not found_page.rows and old_page_of(request) is not None:
            raise Unreachable(", ".join(found_page.gone), "; ".join(found_page.notes))
    return page(
        request, "transactions.html",
        wanted=wanted, rows=found_page.rows, cursor=found_page.cursor, notes=found_page.notes, gone=found_page.gone,
        count=count, first=cursor is None, ages=AGES, min_age=str(wanted.min_age_ms // 1000 or ""),
        chosen_all=request.query_params.get("all") == "1",
        kept={
            "state": wanted.state.text, "group": wanted.group, "topic": wanted.topic, "broker": wanted.broker,
            "min_age": wanted.min_age_ms // 1000, "rows": count if count != ROWS else None,
        },
        after=cursor, runs=console.runs.recent(person)[:RUNS_SHOWN] if may_see_undecided(person) else [],
        outboxes=outboxes, **figures(console),
    )  # fmt: skip


def filter_of(request: Request) -> Filter:
    """What the query asks for. Raises ConfigError."""
    state = text_of(request, "state") or State.OPEN.text
    if state not in STATES:
        raise ConfigError(f"state is {state!r}; there are open and parked")
    return Filter(
        STATES[state], text_of(request, "group"), text_of(request, "topic"), text_of(request, "broker"),
        number_of(request, "min_age", 0, 10**9) * 1000,
    )  # fmt: skip


def figures(console: Console) -> dict[str, Any]:
    """What the top of the page shows, and refreshes."""
    sample, rates = console.samples.newest, console.samples.rates()
    return {"sample": sample, **totals(sample), "rate": rates[-1], "plots": plots(rates, console.samples.span_s)}


def totals(sample: Sample | None) -> dict[str, Any]:
    """Over all brokers that say it; of one that does not answer, what it said last."""
    brokers = sample.brokers if sample is not None else ()
    known = [broker.known for broker in brokers if broker.known is not None]
    summaries: list[Summary] = [broker.summary for broker in known if broker.summary is not None]
    groups = by_group(summaries)
    answered = Answered.of(sample)
    return {
        "answered": answered,
        "disk_ratio": max((one.disk_ratio for one in known if one.disk_ratio is not None), default=None),
        "open": sum(summary.open for summary in summaries) if summaries else None,
        "oldest_ms": max((one.oldest_age_ms for one in summaries if one.oldest_age_ms is not None), default=None),
        "parked": sum(summary.parked_records for summary in summaries) if summaries else None,
        "conflicts": sum(summary.counts.get("conflicts", 0) for summary in summaries) if summaries else None,
        "groups": groups[:GROUPS_SHOWN],
        "groups_more": max(len(groups) - GROUPS_SHOWN, 0) + sum(summary.groups_more for summary in summaries),
        "unseen": [broker.name for broker in brokers if broker.summary is None and not broker.error],
        "silent": [broker for broker in brokers if broker.error],
    }


def plots(rates: list[Rates], span_s: float) -> dict[str, str]:
    """Each plot as SVG."""
    return {
        "open": plot("Open transactions", [Line("open", [one.open for one in rates])], span_s=span_s),
        "decided": plot(
            "Decided per second",
            [Line("committed", [one.commits for one in rates]), Line("rolled back", [one.rollbacks for one in rates])],
            "/s", span_s,
        ),
        "checks": plot(
            "Check-backs and conflicts per second",
            [Line("check-backs", [one.checks for one in rates]), Line("conflicts", [one.conflicts for one in rates])],
            "/s", span_s,
        ),
    }  # fmt: skip


async def show(request: Request) -> Response:
    """One transaction by its id."""
    return await show_one(request, request.path_params["id"])


async def show_one(request: Request, transaction_id: str) -> Response:
    console, broker = console_of(request), text_of(request, "broker")
    explained = await console.admin.explanations.of(transaction_id, broker)
    if not explained:
        return page(request, "transaction_missing.html", HTTPStatus.NOT_FOUND, id=transaction_id)
    every = request.query_params.get("all") == "1"
    shown = []
    for one in explained:
        events = one["events"]
        hidden = 0 if every else max(len(events) - EVENTS_FIRST - EVENTS_LAST, 0)
        parts = events if not hidden else events[:EVENTS_FIRST] + events[-EVENTS_LAST:]
        first = events[0]["at_ms"] if events else 0
        message = await message_of(request, console, one)  # it may add a note
        shown.append({
            **one, "hidden": hidden, "hidden_after": EVENTS_FIRST if hidden else -1,
            "shown": [{**event, "after_ms": event["at_ms"] - first} for event in parts],
            "message": message,
        })  # fmt: skip
    return page(request, "transaction.html", explained=shown, id=transaction_id, every=every)


async def message_of(request: Request, console: Console, one: dict[str, Any]) -> MessageView | None:
    """The message itself, for those who have to decide about it."""
    person = person_of(request)
    if person is None or not may_see_undecided(person):
        return None
    try:
        return await Reading.of(request).by_place_id(one["half"]["offset_message_id"])
    except RequestRejected as error:
        if person.account is None or error.code != ResponseCode.NO_PERMISSION:
            raise
        one["notes"] = [*one["notes"], f"You may not see the message: {error}"]
        return None
