"""Dead letters: messages that a group gave up. Browsed, and sent to the group again, one or all."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.groups import GroupNotFound
from gantrymq.console.dead_letter_facts import DeadLetter, dead_letter
from gantrymq.console.forms import value_of
from gantrymq.console.listing import Order, details, in_order, order_of, page_of
from gantrymq.console.pages.topics import PAGES_MAX, names_of, row_of, summary
from gantrymq.console.parts import console_of, number_of, page, person_of, text_of
from gantrymq.console.reading import Reading
from gantrymq.console.resends import AT_ONCE_MAX, Copy, Resend, outcome
from gantrymq.console.views import part
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX

ROWS: Final = 50
COLUMNS: Final = ("group", "messages", "put_tps")
BATCH: Final = 100


async def show_list(request: Request) -> Response:
    """The groups that have dead letters."""
    console, word = console_of(request), text_of(request, "q")
    names, overview = await asyncio.gather(names_of(console), console.topic_rows.get(console.admin.overviews.topics))
    order = order_of(text_of(request, "sort"), COLUMNS if overview.is_whole else ("group",), Order("group"))
    ordered = in_order(
        sorted({name for name in (*names, *overview.topics) if name.startswith(DEAD_LETTER_PREFIX)}),
        order,
        lambda name, column: name if column == "group" else getattr(overview.topics.get(name), column, None),
    )
    found = page_of(ordered, word, number_of(request, "page", 1, PAGES_MAX))
    rows = [
        {**row, "group": row["topic"].removeprefix(DEAD_LETTER_PREFIX)}
        for row in await details(found.names, lambda name: row_of(console.admin, overview, name))
    ]
    return page(
        request, "dead_letters.html", rows=rows, found=found, order=order, sortable=overview.is_whole,
        unasked=overview.unasked, kept={"q": word, "sort": order.text if order != Order("group") else None},
    )  # fmt: skip


async def show(request: Request) -> Response:
    """The dead letters of one group, the newest first."""
    console, group = console_of(request), request.path_params["group"]
    found = await Reading.of(request).newest(DEAD_LETTER_PREFIX + group, ROWS)
    total = (await summary(console.admin, DEAD_LETTER_PREFIX + group))["messages"]
    letters, notes = await facts_of(request, group, found)
    return page(
        request, "dead_letter_group.html", group=group, letters=letters, notes=notes, total=total,
        resent_max=AT_ONCE_MAX,
    )  # fmt: skip


async def facts_of(request: Request, group: str, found: list[MessageView]) -> tuple[list[DeadLetter], list[str]]:
    """What is known of each; and what could not be found out."""
    notes: list[str] = []
    retry_max = None
    try:
        settings = await console_of(request).admin.groups.get(group)
        retry_max = min(one.retry_max_times for one in settings.values())
    except GroupNotFound:
        notes.append("The group does not exist any more, so its limit of retries is not known.")
    except (GantryError, ValueError) as error:
        notes.append(f"The limit of retries of the group cannot be found out: {error}")
    copies = await details([message.message_id for message in found], lambda one: copies_of(request, group, one, notes))
    return [dead_letter(message, retry_max, some) for message, some in zip(found, copies, strict=True)], notes


async def copies_of(request: Request, group: str, message_id: str, notes: list[str]) -> list[MessageView]:
    """The messages with the same id in the retry topic of the group."""
    try:
        return await Reading.of(request).by_unique_key(RETRY_PREFIX + group, message_id)
    except GantryError as error:
        note = f"Which ones were sent again cannot be found out: {error}"
        if note not in notes:
            notes.append(note)
        return []


async def plan(request: Request) -> Response:
    """The dry run of the chosen ones, or of all: which messages would be sent where. Nothing is sent."""
    console, form, group = console_of(request), request.state.form, request.path_params["group"]
    topic, work = DEAD_LETTER_PREFIX + group, Resend(console, group)
    everything = value_of(form, "which") == "all"
    if everything:
        copies = [work.planned(message) for message in await all_of(request, topic)]
    else:
        copies = await work.read(topic, chosen_in(form))
    return result(request, copies, dry_run=True, cut=everything and len(copies) >= AT_ONCE_MAX)


async def resend(request: Request) -> Response:
    """Send the ones that a dry run listed to the group once more. The dead letters themselves stay where they are."""
    console, form, group = console_of(request), request.state.form, request.path_params["group"]
    if value_of(form, "which") == "all":
        # What came after the dry run was in no list, so nobody looked at it.
        raise ConfigError("only messages that a dry run listed are sent: press Send all again on the page of the group")
    why, chosen, work = value_of(form, "why"), chosen_in(form), Resend(console, group)
    copies = await work.read(DEAD_LETTER_PREFIX + group, chosen)
    async with console.changes.noted(
        person_of(request), "resend dead letters", why, group=group, which=chosen
    ) as ending:  # fmt: skip
        copies = await work.send(copies)
        ending.phase, ending.text = outcome(copies)
    return result(request, copies, dry_run=False, why=why)


def chosen_in(form: dict[str, list[str]]) -> list[str]:
    """The places ``broker/queue/offset`` of a form."""
    chosen = form.get("chosen", [])
    if not chosen:
        raise ConfigError("choose at least one message, or all")
    return chosen


def result(request: Request, copies: list[Copy], *, dry_run: bool, why: str = "", cut: bool = False) -> Response:
    """The page of a dry run, or of what was sent."""
    group = request.path_params["group"]
    here = f"/dead-letters/{part(group)}"
    return page(
        request, "resend.html", group=group, why=why, dry_run=dry_run, back=here, action=f"{here}/resend", fields={},
        fitting=[copy for copy in copies if not copy.problem], failed=[copy for copy in copies if copy.problem],
        cut=cut, at_once_max=AT_ONCE_MAX,
    )  # fmt: skip


async def all_of(request: Request, topic: str) -> list[MessageView]:
    """The oldest AT_ONCE_MAX messages of a topic."""
    admin = console_of(request).admin
    found: list[MessageView] = []
    status = await admin.topic_state.status(topic)
    for queue in status.queues:
        offset: int = 0
        while len(found) < AT_ONCE_MAX:
            part, low, high = await Reading.of(request).part(queue, offset, min(BATCH, AT_ONCE_MAX - len(found)))
            found += part
            offset = max(part[-1].queue_offset + 1 if part else high, low)
            if offset >= high:
                break
    return found
