"""Consumer groups: how far each is behind, its members, and where it shall go on (reset, with a dry run)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gantrymq.admin import Admin
from gantrymq.admin.consumers import Target
from gantrymq.admin.groups import of_system
from gantrymq.console.forms import parse_time, value_of
from gantrymq.console.listing import details, page_of
from gantrymq.console.pages.topics import DERIVED, PAGES_MAX
from gantrymq.console.parts import Console, console_of, number_of, page, person_of, render, text_of
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX

FURTHEST: Final = 5
LOOKED_AT_MAX: Final = 100
"""Groups that are asked about for the overview."""
QUEUES_SHOWN: Final = 200
MEMBERS_SHOWN: Final = 200


async def groups_of(console: Console) -> list[str]:
    """The names of all groups but those of servers and tools."""

    async def ask() -> list[str]:
        return [name for name in await console.admin.groups.all() if not of_system(name)]

    return await console.groups.get(ask)


async def show_list(request: Request) -> Response:
    """One page of the groups. Only those that are shown are asked about."""
    console, word = console_of(request), text_of(request, "q")
    found = page_of(await groups_of(console), word, number_of(request, "page", 1, PAGES_MAX))
    rows = await details(found.names, lambda name: summary(console.admin, name))
    return page(request, "consumers.html", rows=rows, found=found, kept={"q": word})


async def summary(admin: Admin, group: str) -> dict[str, Any]:
    """A row; what cannot be found out is None."""
    row: dict[str, Any] = {"group": group, "lag": None, "tps": None, "members": None, "model": None, "error": ""}
    try:
        online, state = await asyncio.gather(admin.consumers.connections(group), admin.consumers.progress(group))
    except GantryError as error:
        return {**row, "error": str(error)}
    members = len(online.connection_set) if online is not None else 0
    model = online.message_model if online is not None else None
    return {**row, "lag": state.lag, "tps": state.tps, "members": members, "model": model}


async def furthest(request: Request) -> Response:
    """A part of the overview: the groups that are furthest behind."""
    console = console_of(request)
    try:
        names = await groups_of(console)
    except GantryError as error:  # the page around it stays, and must not show what was true before
        return HTMLResponse(render(request, "parts/furthest.html", rows=[], left=0, total=0, unknown=[str(error)]))
    # Kept for all open pages together, each of which asks every few seconds.
    rows = await console.behind.get(lambda: details(names[:LOOKED_AT_MAX], lambda name: summary(console.admin, name)))
    behind = sorted((row for row in rows if row["lag"]), key=lambda row: row["lag"], reverse=True)[:FURTHEST]
    unknown = [row["error"] for row in rows if row["error"]]
    left = max(len(names) - LOOKED_AT_MAX, 0)
    return HTMLResponse(
        render(request, "parts/furthest.html", rows=behind, left=left, total=len(names), unknown=unknown)
    )


async def show(request: Request) -> Response:
    """One group: its queues and members."""
    console, group = console_of(request), request.path_params["group"]
    return page(request, "consumer.html", **await group_facts(console, group))


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
