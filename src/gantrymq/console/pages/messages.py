"""Messages: found by id, key, offset or time; shown as JSON, text or hex; sent again; as code."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gantrymq.admin.body_search import Bounds, Searched
from gantrymq.admin.resending import origin_topic
from gantrymq.console.as_code import python_of
from gantrymq.console.forms import parse_time, value_of
from gantrymq.console.pages.topics import names_of
from gantrymq.console.parts import console_of, number_of, page, person_of, render, text_of
from gantrymq.console.reading import Reading
from gantrymq.console.resends import Resend, outcome
from gantrymq.console.views import kind_of, query
from gantrymq.errors import ConfigError, GantryError, RequestRejected
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import holds

ROWS: Final = 50
ROWS_MAX: Final = 200
MOSTS: Final = (5_000, 20_000, 100_000)
"""Messages that one search in bodies may look at."""
SEARCH_S: Final = 5.0
"""Seconds that it may take, at most."""
SUGGESTED_MAX: Final = 500
"""Names of topics that a page suggests; a browser shows a longer list badly."""
OFFSET_MAX: Final = 2**62
KINDS: Final = ("json", "text", "hex")


async def show_list(request: Request) -> Response:
    """The search, and what it found."""
    topic = text_of(request, "topic")
    search = {
        name: text_of(request, name)
        for name in ("topic", "id", "key", "time", "broker", "queue", "offset", "body", "until", "most")
    }
    found: list[MessageView] = []
    problem, following, searched = "", None, None
    try:
        if search["id"] is not None and topic is None:
            one = await Reading.of(request).by_place_id(search["id"])
            found = [one] if one is not None else []
        elif topic is not None and search["body"] is not None:
            searched = await in_bodies(request, topic, search)
            found = searched.found
            if searched.before_ms is not None:
                following = {**search, "until": str(searched.before_ms)}
        elif search["body"] is not None:
            problem = "give the topic whose bodies shall be searched"
        elif topic is not None:
            found, following = await find(request, topic, search)
    except (ConfigError, RequestRejected) as error:
        problem = str(error)
    asked = any(search.values())
    of_topic = asked and not any(search[name] for name in ("id", "key", "time", "queue", "body"))
    return page(
        request, "messages.html", search=search, found=found, asked=asked, problem=problem, following=following,
        follow=text_of(request, "follow") == "1", newest=of_topic, searched=searched, mosts=MOSTS,
        suggested=await suggested(request),
    )  # fmt: skip


async def suggested(request: Request) -> list[str]:
    """Names of topics to choose from; none when they cannot be asked for: the page is of use without them."""
    try:
        names = await names_of(console_of(request))
    except GantryError:
        return []
    return [name for name in names if holds(name) is None][:SUGGESTED_MAX]


async def in_bodies(request: Request, topic: str, search: dict[str, str | None]) -> Searched:
    """A search in the bodies of a topic, within bounds: it ends before a person stops waiting."""
    most = search["most"] or str(MOSTS[0])
    if most not in map(str, MOSTS):
        raise ConfigError(
            f"{most[:40]!r} is not a valid number of messages to look at; choose {MOSTS[0]} to {MOSTS[-1]}"
        )
    begin = 0 if search["time"] is None else parse_time(search["time"])
    # A message that is stored meanwhile is of interest, too.
    end = console_of(request).clock.wall_ms() + 60_000 if search["until"] is None else parse_time(search["until"])
    seconds = min(SEARCH_S, console_of(request).settings.page_seconds / 2)
    bounds = Bounds(found=ROWS, messages=int(most), seconds=seconds)
    return await Reading.of(request).in_bodies(topic, search["body"] or "", begin, end, bounds)


async def newest(request: Request) -> Response:
    """A part of the list that refreshes itself: the newest messages of a topic."""
    topic = text_of(request, "topic")
    if topic is None:
        raise ConfigError("say in which topic")
    found = await Reading.of(request).newest(topic, ROWS)
    return HTMLResponse(render(request, "parts/message_rows.html", found=found, choosing=False))


async def find(
    request: Request, topic: str, search: dict[str, str | None]
) -> tuple[list[MessageView], dict[str, Any] | None]:
    """The messages, and the query of the next page when there is one."""
    reading = Reading.of(request)
    rows = number_of(request, "rows", ROWS, ROWS_MAX) or ROWS
    if search["id"] is not None:
        found = await reading.by_unique_key(topic, search["id"])
        if not found:
            one = await reading.by_place_id(search["id"])
            found = [one] if one is not None else []
        return found, None
    if search["key"] is not None:
        return await reading.by_key(topic, search["key"], rows), None
    if search["time"] is not None:
        only = queue_of(topic, search["broker"], search["queue"]) if search["queue"] is not None else None
        found = await reading.since(topic, parse_time(search["time"]), rows, only)
        later = {**search, "time": str(found[-1].store_timestamp)} if len(found) == rows else None
        return found, later
    if search["queue"] is not None:
        queue = queue_of(topic, search["broker"], search["queue"])
        offset = number_of(request, "offset", 0, OFFSET_MAX)
        found, _, end = await reading.part(queue, offset, rows)
        following = found[-1].queue_offset + 1 if found else end
        return found, {**search, "offset": str(following)} if following < end else None
    return await reading.newest(topic, rows), None


async def show(request: Request) -> Response:
    """One message at its place."""
    place = [text_of(request, name) for name in ("topic", "broker", "queue", "offset")]
    message = await message_at(request, *place)
    console, kind = console_of(request), text_of(request, "as") or ""
    notes: list[str] = []
    try:
        readers, left = await console.admin.messages.readers(message)
        if left:
            notes.append(f"{left} more groups read the topic; only these were asked about.")
    except GantryError as error:
        readers = []
        notes.append(f"Which groups have got it cannot be found out here: {error}")
    return page(
        request, "message.html", message=message, readers=readers, notes=notes,
        kind=kind if kind in KINDS else kind_of(message.body),
        kinds=KINDS, origin=origin_topic(message), code=python_of(message), place=place_of(message),
    )  # fmt: skip


async def plan_resend(request: Request) -> Response:
    """The dry run: where a copy would be sent."""
    return await _resend(request, dry_run=True)


async def resend(request: Request) -> Response:
    """Send a copy, to everybody who reads the topic or to one group."""
    return await _resend(request, dry_run=False)


async def _resend(request: Request, *, dry_run: bool) -> Response:
    console, form = console_of(request), request.state.form
    names = ("topic", "broker", "queue", "offset")
    message = await message_at(request, *(value_of(form, name) for name in names))
    group, why = value_of(form, "group") or None, value_of(form, "why")
    work = Resend(console, group)
    copy = work.planned(message)
    if not dry_run:
        async with console.changes.noted(
            person_of(request), "resend", why, topic=message.topic, message_id=message.message_id,
            offset_message_id=message.offset_message_id, group=group,
        ) as ending:  # fmt: skip
            (copy,) = await work.send([copy])
            ending.phase, ending.text = outcome([copy])
    place = place_of(message)
    return page(
        request, "resend.html", group=group, why=why, dry_run=dry_run, back=f"/messages/at?{query(place)}",
        action="/messages/resend", fields={**place, "group": group or ""}, cut=False,
        fitting=[] if copy.problem else [copy], failed=[copy] if copy.problem else [],
    )  # fmt: skip


async def message_at(
    request: Request, topic: str | None, broker: str | None, queue: str | None, offset: str | None
) -> MessageView:
    if not topic or not offset or not offset.isdecimal():
        raise ConfigError("say which message: topic, broker, queue and offset")
    message = await Reading.of(request).at(queue_of(topic, broker, queue or ""), int(offset))
    if message is None:
        raise ConfigError("there is no message at this place any more: it was deleted, or it never was there")
    return message


def queue_of(topic: str, broker: str | None, number: str) -> MessageQueue:
    if not broker or not number.isdecimal():
        raise ConfigError("say which queue: its broker and its number")
    return MessageQueue(topic, broker, int(number))


def place_of(message: MessageView) -> dict[str, Any]:
    """The query that leads to a message."""
    return {
        "topic": message.topic, "broker": message.queue.broker_name, "queue": str(message.queue.queue_id),
        "offset": str(message.queue_offset),
    }  # fmt: skip
