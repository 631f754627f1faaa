"""Dead letters: messages that a group gave up. Browsed, and sent to the group again, one or all."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.console.forms import value_of
from gantrymq.console.listing import details, page_of
from gantrymq.console.pages.topics import PAGES_MAX, summary
from gantrymq.console.parts import console_of, number_of, page, person_of, text_of
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX

ROWS: Final = 50
RESENT_MAX: Final = 1_000
"""Messages of one "resend all"; the page says how to go on."""
BATCH: Final = 100


async def show_list(request: Request) -> Response:
    """The groups that have dead letters."""
    console, word = console_of(request), text_of(request, "q")
    names = await console.topics.get(console.admin.topics)
    found = page_of(
        [name for name in names if name.startswith(DEAD_LETTER_PREFIX)], word, number_of(request, "page", 1, PAGES_MAX)
    )
    rows = [
        {**row, "group": row["topic"].removeprefix(DEAD_LETTER_PREFIX)}
        for row in await details(found.names, lambda name: summary(console.admin, name))
    ]
    return page(request, "dead_letters.html", rows=rows, found=found, kept={"q": word})


async def show(request: Request) -> Response:
    """The dead letters of one group, the newest first."""
    console, group = console_of(request), request.path_params["group"]
    found = await console.admin.browsing.newest(DEAD_LETTER_PREFIX + group, ROWS)
    total = (await summary(console.admin, DEAD_LETTER_PREFIX + group))["messages"]
    return page(request, "dead_letter_group.html", group=group, found=found, total=total, resent_max=RESENT_MAX)


async def resend(request: Request) -> Response:
    """Send the chosen ones, or all, to the group once more. The dead letters themselves stay where they are."""
    console, form, group = console_of(request), request.state.form, request.path_params["group"]
    why, chosen = value_of(form, "why"), form.get("chosen", [])
    everything = value_of(form, "which") == "all"
    if not everything and not chosen:
        raise ConfigError("choose at least one message, or all")
    topic = DEAD_LETTER_PREFIX + group
    sent, failed = 0, []
    person = person_of(request)
    async with console.changes.noted(
        person, "resend dead letters", why, group=group, which="all" if everything else chosen
    ):  # fmt: skip
        messages = await all_of(request, topic) if everything else await these(request, topic, chosen)
        for message in messages:
            try:
                await console.admin.resending.resend(message, group)
                sent += 1
            except GantryError as error:
                failed.append((message, str(error)))
    return page(request, "dead_letters_resent.html", group=group, sent=sent, failed=failed, resent_max=RESENT_MAX,
                cut=everything and len(messages) >= RESENT_MAX)  # fmt: skip


async def these(request: Request, topic: str, chosen: list[str]) -> list[MessageView]:
    """The messages at the places ``broker/queue/offset``."""
    found = []
    for text in chosen[:RESENT_MAX]:
        broker, queue, offset = [*text.rsplit("/", 2), "", ""][:3]
        if not queue.isdecimal() or not offset.isdecimal():
            raise ConfigError(f"{text!r} is no place of a message")
        message = await console_of(request).admin.messages.at(MessageQueue(topic, broker, int(queue)), int(offset))
        if message is not None:
            found.append(message)
    return found


async def all_of(request: Request, topic: str) -> list[MessageView]:
    """The oldest RESENT_MAX messages of a topic."""
    admin = console_of(request).admin
    found: list[MessageView] = []
    status = await admin.topic_state.status(topic)
    for queue in status.queues:
        offset: int = 0
        while len(found) < RESENT_MAX:
            part, low, high = await admin.browsing.at(queue, offset, min(BATCH, RESENT_MAX - len(found)))
            found += part
            offset = max(part[-1].queue_offset + 1 if part else high, low)
            if offset >= high:
                break
    return found
