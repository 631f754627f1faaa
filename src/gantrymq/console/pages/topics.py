"""Topics: a list with what they hold, and one with its queues, settings and readers."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin import Admin
from gantrymq.admin.topic_state import MESSAGE_TYPE
from gantrymq.console.listing import details, page_of
from gantrymq.console.parts import console_of, number_of, page, text_of
from gantrymq.errors import GantryError
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX
from gantrymq.protocol.files.topics import PERM_READ, PERM_WRITE

DERIVED: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
PAGES_MAX: Final = 100_000
QUEUES_SHOWN: Final = 200
GROUPS_SHOWN: Final = 200


async def show_list(request: Request) -> Response:
    """One page of the topics. Only those that are shown are asked about."""
    console, word, all_topics = console_of(request), text_of(request, "q"), text_of(request, "all") == "1"
    names = await console.topics.get(console.admin.topics)
    chosen = [name for name in names if all_topics or not name.startswith(DERIVED)]
    found = page_of(chosen, word, number_of(request, "page", 1, PAGES_MAX))
    rows = await details(found.names, lambda name: summary(console.admin, name))
    return page(request, "topics.html", rows=rows, found=found, kept={"q": word, "all": 1 if all_topics else None})


async def summary(admin: Admin, topic: str) -> dict[str, Any]:
    """A row; what cannot be found out is None."""
    row: dict[str, Any] = {"topic": topic, "messages": None, "tps": None, "queues": None, "brokers": [], "last": None}
    try:
        status = await admin.topic_state.status(topic)
    except GantryError as error:
        return {**row, "error": str(error)}
    return {
        "topic": topic, "error": "", "tps": status.put_tps, "queues": len(status.queues),
        "brokers": sorted({queue.broker_name for queue in status.queues}),
        "messages": sum(at.max_offset - at.min_offset for at in status.queues.values()),
        "last": max((at.last_update_timestamp for at in status.queues.values()), default=0),
    }  # fmt: skip


async def show(request: Request) -> Response:
    """One topic."""
    console, topic = console_of(request), request.path_params["topic"]
    status = await console.admin.topic_state.status(topic)
    notes = []
    try:
        groups = await console.admin.groups.reading(topic)
    except GantryError as error:
        groups = []
        notes.append(f"Which groups read it cannot be found out here: {error}")
    configs = [
        {
            "broker": broker, "type": (config.attributes or {}).get(MESSAGE_TYPE, "any"),
            "read_queues": config.read_queue_nums, "write_queues": config.write_queue_nums,
            "perm": permission(config.perm), "order": config.order,
        }
        for broker, config in (await console.admin.topic_state.configs(topic)).items()
    ]  # fmt: skip
    return page(
        request, "topic.html", topic=topic, state=status, configs=configs, groups=groups, notes=notes,
        queues=list(status.queues.items())[:QUEUES_SHOWN], groups_shown=GROUPS_SHOWN,
    )  # fmt: skip


def permission(perm: int) -> str:
    words = [word for bit, word in ((PERM_READ, "read"), (PERM_WRITE, "write")) if perm & bit]
    return " and ".join(words) or "nothing"
