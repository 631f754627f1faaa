"""Consumer groups: how far each is behind, its members, and where it shall go on (reset, with a dry run)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gantrymq.admin import Admin
from gantrymq.admin.consumers import Target
from gantrymq.admin.groups import of_system
from gantrymq.admin.overviews import Group, Overview
from gantrymq.console.forms import parse_time, value_of
from gantrymq.console.listing import Order, details, in_order, order_of, page_of
from gantrymq.console.pages.topics import DERIVED, PAGES_MAX
from gantrymq.console.parts import Console, console_of, number_of, page, person_of, render, text_of
from gantrymq.console.plots import Line, plot
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX
from gantrymq.message.versions import version_name
from gantrymq.protocol.bodies.progress import ConsumerConnections

FURTHEST: Final = 5
LOOKED_AT_MAX: Final = 100
"""Groups that are asked about one by one for the overview, of brokers that do not tell all at once."""
COLUMNS: Final = ("group", "lag", "behind_ms", "tps", "members")
QUEUES_SHOWN: Final = 200
MEMBERS_SHOWN: Final = 200


async def groups_of(console: Console) -> list[str]:
    """The names of all groups but those of servers and tools."""

    async def ask() -> list[str]:
        return [name for name in await console.admin.groups.all() if not of_system(name)]

    return await console.groups.get(ask)


async def overview_of(console: Console) -> Overview:
    """All groups at a glance: one question to each broker, used again for a few seconds."""
    return await console.group_rows.get(console.admin.overviews.groups)


async def show_list(request: Request) -> Response:
    """One page of the groups: one question to each broker tells all of them."""
    console, word = console_of(request), text_of(request, "q")
    overview = await overview_of(console)
    known = {name: row for name, row in overview.groups.items() if not of_system(name)}
    names = list(known) if overview.is_whole else await groups_of(console)
    order = order_of(text_of(request, "sort"), COLUMNS if overview.is_whole else ("group",), Order("group"))
    ordered = in_order(names, order, lambda name, column: column_of(known.get(name), name, column))
    found = page_of(ordered, word, number_of(request, "page", 1, PAGES_MAX))
    rows = await details(found.names, lambda name: row_of(console.admin, overview, name))
    return page(
        request, "consumers.html", rows=rows, found=found, order=order, sortable=overview.is_whole,
        unasked=overview.unasked, kept={"q": word, "sort": order.text if order != Order("group") else None},
    )  # fmt: skip


def column_of(row: Group | None, name: str, column: str) -> Any:
    """What a group is sorted by; None when it is not known."""
    return name if column == "group" else getattr(row, column, None)


async def row_of(admin: Admin, overview: Overview, group: str) -> dict[str, Any]:
    """A row. A group of brokers that tell all at once costs no further question."""
    known = overview.groups.get(group)
    if known is None or not overview.is_whole:
        return await summary(admin, group)
    return {
        "group": group, "lag": known.lag, "behind_ms": known.behind_ms, "tps": known.tps, "members": known.members,
        "model": known.model or None, "conflicts": known.conflicts, "error": "",
    }  # fmt: skip


async def summary(admin: Admin, group: str) -> dict[str, Any]:
    """A row by questions about one group; what cannot be found out is None."""
    row: dict[str, Any] = {
        "group": group, "lag": None, "behind_ms": None, "tps": None, "members": None, "model": None, "conflicts": [],
        "error": "",
    }  # fmt: skip
    try:
        online, state = await asyncio.gather(admin.consumers.connections(group), admin.consumers.progress(group))
    except GantryError as error:
        return {**row, "error": str(error)}
    members = len(online.connection_set) if online is not None else 0
    model = online.message_model if online is not None else None
    conflicts = list((online.subscription_conflicts or {}) if online is not None else {})
    return {**row, "lag": state.lag, "tps": state.tps, "members": members, "model": model, "conflicts": conflicts}


async def furthest(request: Request) -> Response:
    """A part of the overview: the groups that are furthest behind."""
    console = console_of(request)
    try:
        overview = await overview_of(console)
        names = [name for name in overview.groups if not of_system(name)]
        if not overview.is_whole:
            names = await groups_of(console)
    except GantryError as error:  # the page around it stays, and must not show what was true before
        return HTMLResponse(render(request, "parts/furthest.html", rows=[], left=0, total=0, unknown=[str(error)]))
    asked = names if overview.is_whole else names[:LOOKED_AT_MAX]
    rows = await details(asked, lambda name: row_of(console.admin, overview, name))
    behind = sorted((row for row in rows if row["lag"]), key=lambda row: row["lag"], reverse=True)[:FURTHEST]
    unknown = [row["error"] for row in rows if row["error"]]
    unknown += [one.why for one in overview.unasked if one.gone and not one.denied]
    return HTMLResponse(
        render(
            request, "parts/furthest.html", rows=behind, left=len(names) - len(asked), total=len(names),
            unknown=unknown,
        )
    )  # fmt: skip


async def show(request: Request) -> Response:
    """One group: its queues and members, and how far it was behind over the last half hour."""
    console, group = console_of(request), request.path_params["group"]
    facts, overview = await asyncio.gather(group_facts(console, group), overview_of(console))
    return page(
        request, "consumer.html", **facts, row=overview.groups.get(group), plots=plots(console, group),
        members=members_of(facts["online"]),
    )  # fmt: skip


def plots(console: Console, group: str) -> dict[str, str]:
    """Each plot as SVG."""
    messages, seconds = console.lags.of(group)
    span_s = console.lags.span_s
    return {
        "messages": plot("Messages behind", [Line("behind", messages)], "", span_s),
        "seconds": plot("Behind for", [Line("oldest unread message", seconds)], " s", span_s),
    }


def members_of(online: ConsumerConnections | None) -> list[dict[str, Any]]:
    """The members, each with what it selects. Brokers tell the selector of single members only where they differ."""
    if online is None:
        return []
    conflicts = online.subscription_conflicts or {}
    found = []
    for member in online.connection_set[:MEMBERS_SHOWN]:
        selectors = {topic: (data.sub_string, False) for topic, data in sorted(online.subscription_table.items())}
        for topic, of_topic in conflicts.items():
            selectors[topic] = next(
                ((selector, True) for selector, clients in of_topic.items() if member.client_id in clients),
                ("not read by this member", True),
            )
        found.append({"member": member, "selectors": selectors, "version": version_name(member.version)})
    return found


async def group_facts(console: Console, group: str) -> dict[str, Any]:
    online, state = await asyncio.gather(
        console.admin.consumers.connections(group), console.admin.consumers.progress(group)
    )
    held, unasked = await console.admin.consumers.owners(group) if online is not None else ({}, 0)
    queues = sorted(state.queues, key=lambda at: at.lag, reverse=True)
    topics = sorted({at.queue.topic for at in state.queues if not at.queue.topic.startswith(DERIVED)})
    return {
        "group": group, "online": online, "state": state, "held": held, "queues": queues[:QUEUES_SHOWN],
        "unasked": unasked, "members_shown": MEMBERS_SHOWN,
        "hidden": max(len(queues) - QUEUES_SHOWN, 0), "topics": topics, "dead_letters": DEAD_LETTER_PREFIX + group,
    }  # fmt: skip


async def plan_reset(request: Request) -> Response:
    """The dry run: where the group is in each queue, and where it would be."""
    return await _reset(request, dry_run=True)


async def reset(request: Request) -> Response:
    """Do it, and note it in the audit file."""
    return await _reset(request, dry_run=False)


async def _reset(request: Request, *, dry_run: bool) -> Response:
    console, form, group = console_of(request), request.state.form, request.path_params["group"]
    topic, to, why = value_of(form, "topic"), value_of(form, "to"), value_of(form, "why")
    target = target_of(to, value_of(form, "time"))
    steps = await console.admin.consumers.plan_reset(group, topic, target)
    how = ""
    if not dry_run:
        person = person_of(request)
        moved = {str(step.queue): [step.before, step.after] for step in steps}
        async with console.changes.noted(
            person, "reset", why, group=group, topic=topic, to=to, time_ms=target.time_ms, queues=moved
        ):
            how = await console.admin.consumers.reset(group, steps, target)
    return page(
        request, "reset.html", group=group, topic=topic, to=to, time=value_of(form, "time"), steps=steps,
        dry_run=dry_run, how=how, why=why,
    )  # fmt: skip


def target_of(to: str, time: str) -> Target:
    """Raises ConfigError for anything but ``earliest``, ``latest`` and ``time`` with a time."""
    if to in ("earliest", "latest"):
        return Target(edge=to)
    if to != "time":
        raise ConfigError("choose where the group shall go on: the earliest message, the latest, or a time")
    return Target(time_ms=parse_time(time))
