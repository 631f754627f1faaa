"""Topics: a list with what they hold and how fast they move, and one with its queues, settings, readers and senders."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin import Admin
from gantrymq.admin.overviews import Overview
from gantrymq.admin.overviews import Topic as TopicRow
from gantrymq.admin.topic_state import MESSAGE_TYPE
from gantrymq.console.listing import Order, details, in_order, order_of, page_of
from gantrymq.console.parts import Console, console_of, number_of, page, text_of
from gantrymq.console.reading import NotShown, Reading
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.message.message_types import TOPIC_TYPES
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, holds
from gantrymq.protocol.files.topics import PERM_READ, PERM_WRITE

DERIVED: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
PAGES_MAX: Final = 100_000
QUEUES_SHOWN: Final = 200
GROUPS_SHOWN: Final = 200
SENDERS_LOOKED_AT: Final = 32
"""Newest messages whose senders are shown."""
COLUMNS: Final = ("topic", "messages", "put_tps", "got_tps", "lag", "groups", "queues")


async def names_of(console: Console) -> list[str]:
    """The names of all topics, as the name servers know them."""
    return await console.topics.get(console.admin.topics)


async def show_list(request: Request) -> Response:
    """One page of the topics: one question to each broker tells all of them."""
    console, word, system = console_of(request), text_of(request, "q"), text_of(request, "all") == "1"
    names, overview = await asyncio.gather(
        names_of(console), console.topic_rows.get(console.admin.overviews.topics)
    )  # fmt: skip
    every = sorted({*names, *overview.topics})
    chosen = [name for name in every if system or not is_of_system(overview, name)]
    order = order_of(text_of(request, "sort"), COLUMNS if overview.is_whole else ("topic",), Order("topic"))
    ordered = in_order(chosen, order, lambda name, column: value_of(overview.topics.get(name), name, column))
    found = page_of(ordered, word, number_of(request, "page", 1, PAGES_MAX))
    rows = await details(found.names, lambda name: row_of(console.admin, overview, name))
    return page(
        request, "topics.html", rows=rows, found=found, order=order, sortable=overview.is_whole,
        hidden=len(every) - len(chosen), unasked=overview.unasked, types=TOPIC_TYPES,
        kept={"q": word, "all": 1 if system else None, "sort": order.text if order != Order("topic") else None},
    )  # fmt: skip


def is_of_system(overview: Overview, name: str) -> bool:
    """Whether applications have nothing to do with a topic. Brokers know the topics that they make for themselves."""
    known = overview.topics.get(name)
    return holds(name) is not None or (known is not None and known.system)


def value_of(row: TopicRow | None, name: str, column: str) -> Any:
    """What a topic is sorted by; None when it is not known."""
    return name if column == "topic" else getattr(row, column, None)


async def row_of(admin: Admin, overview: Overview, topic: str) -> dict[str, Any]:
    """A row; what cannot be found out is None. A topic of a broker that tells all at once costs no further question."""
    known = overview.topics.get(topic)
    if known is None and overview.is_whole:
        return {"topic": topic, "error": "No broker that can be reached has it."}
    if known is None or not overview.is_whole:
        return await summary(admin, topic)
    return {
        "topic": topic, "error": "", "messages": known.messages, "put": known.put_tps, "got": known.got_tps,
        "lag": known.lag, "furthest": known.furthest, "groups": known.groups, "queues": known.queues,
        "brokers": known.brokers,
    }  # fmt: skip


async def summary(admin: Admin, topic: str) -> dict[str, Any]:
    """A row of one topic by a question about it; what cannot be found out is None."""
    row: dict[str, Any] = {
        "topic": topic, "messages": None, "put": None, "got": None, "lag": None, "furthest": "", "groups": None,
        "queues": None, "brokers": [], "error": "",
    }  # fmt: skip
    try:
        status = await admin.topic_state.status(topic)
    except GantryError as error:
        return {**row, "error": str(error)}
    return {
        **row, "put": status.put_tps, "queues": len(status.queues),
        "brokers": sorted({queue.broker_name for queue in status.queues}),
        "messages": sum(at.max_offset - at.min_offset for at in status.queues.values()),
    }  # fmt: skip


async def show(request: Request) -> Response:
    """One topic."""
    console, topic = console_of(request), request.path_params["topic"]
    status = await console.admin.topic_state.status(topic)
    notes: list[str] = []
    readers, known = await readers_of(console, topic, notes)
    senders = await senders_of(request, topic, notes) if text_of(request, "senders") == "1" else None
    configs = [
        {
            "broker": broker, "type": (config.attributes or {}).get(MESSAGE_TYPE, ""),
            "read_queues": config.read_queue_nums, "write_queues": config.write_queue_nums,
            "perm": permission(config.perm), "perm_number": config.perm, "order": config.order,
        }
        for broker, config in (await console.admin.topic_state.configs(topic)).items()
    ]  # fmt: skip
    return page(
        request, "topic.html", topic=topic, state=status, configs=configs, readers=readers, known=known, notes=notes,
        queues=list(status.queues.items())[:QUEUES_SHOWN], groups_shown=GROUPS_SHOWN, senders=senders,
        looked_at=SENDERS_LOOKED_AT, types=TOPIC_TYPES, of_system=holds(topic) is not None,
        last=max((at.last_update_timestamp for at in status.queues.values()), default=0),
        messages=sum(at.max_offset - at.min_offset for at in status.queues.values()),
    )  # fmt: skip


async def readers_of(console: Console, topic: str, notes: list[str]) -> tuple[list[dict[str, Any]], bool]:
    """The groups that read a topic, the one furthest behind first; and whether they could be found out."""
    overview = await console.group_rows.get(console.admin.overviews.groups)
    rows: list[dict[str, Any]] = [
        {"group": group.group, "lag": one.lag, "behind_ms": one.behind_ms, "tps": one.tps, "members": group.members}
        for group in overview.groups.values()
        if (one := group.topics.get(topic)) is not None
    ]
    rows.sort(key=lambda row: row["lag"], reverse=True)
    if overview.is_whole:
        notes += [one.why for one in overview.unasked]
        return rows, True
    try:
        groups = await console.admin.groups.reading(topic)
    except GantryError as error:
        notes.append(f"Which groups read it cannot be found out here: {error}")
        return rows, False
    told = {row["group"] for row in rows}
    unknown = {"lag": None, "behind_ms": None, "tps": None, "members": None}
    return rows + [{"group": group, **unknown} for group in groups if group not in told], True


async def senders_of(request: Request, topic: str, notes: list[str]) -> list[dict[str, Any]]:
    """Who sent the newest messages: brokers note the address of the connection, and which clients are connected."""
    try:
        newest = await Reading.of(request).newest(topic, SENDERS_LOOKED_AT)
    except (NotShown, RequestRejected) as error:
        notes.append(f"Who sends to it may not be seen: {error}")
        return []
    overview = await console_of(request).admin.overviews.clients()
    clients = {row.address: row for _, row in overview.clients if row.kind == "producer"}
    counts = Counter(message.born_host for message in newest)
    last = {message.born_host: message.store_timestamp for message in reversed(newest)}
    return [
        {"address": address, "count": count, "last": last[address], "client": clients.get(address)}
        for address, count in counts.most_common()
    ]  # fmt: skip


def permission(perm: int) -> str:
    words = [word for bit, word in ((PERM_READ, "read"), (PERM_WRITE, "write")) if perm & bit]
    return " and ".join(words) or "nothing"
