"""Clients that are connected: of which groups, by which protocol, from where, and when they were last heard of."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.groups import of_system
from gantrymq.admin.overviews import Overview
from gantrymq.console.listing import Order, details, in_order, order_of
from gantrymq.console.pages.topics import PAGES_MAX
from gantrymq.console.parts import Console, console_of, number_of, page, text_of
from gantrymq.errors import GantryError
from gantrymq.message.versions import version_name

ROWS: Final = 100
COLUMNS: Final = ("client_id", "kind", "group", "protocol", "language", "version", "address", "broker", "heard_ms")
GROUPS_MAX: Final = 100
"""Groups that are asked about one by one, of brokers that do not tell all at once."""
KINDS: Final = ("producer", "consumer")


async def show(request: Request) -> Response:
    """One page of them: one question to each broker."""
    console, word, kind = console_of(request), text_of(request, "q"), text_of(request, "kind")
    overview = await console.admin.overviews.clients()
    notes: list[str] = []
    rows: list[dict[str, Any]] = [
        {
            "broker": broker, "kind": row.kind, "group": row.group, "client_id": row.client_id, "address": row.address,
            "language": row.language, "version": version_name(row.version), "protocol": row.protocol,
            "heard_ms": row.heard_ms,
        }
        for broker, row in overview.clients
    ]  # fmt: skip
    rows += await one_by_one(console, overview, notes)
    fitting = [row for row in rows if fits(row, word) and (kind not in KINDS or row["kind"] == kind)]
    order = order_of(text_of(request, "sort"), COLUMNS, Order("client_id"))
    ordered = in_order(fitting, order, lambda row, column: row[column])
    pages = max((len(ordered) + ROWS - 1) // ROWS, 1)
    number = min(max(number_of(request, "page", 1, PAGES_MAX), 1), pages)
    return page(
        request, "clients.html", rows=ordered[(number - 1) * ROWS : number * ROWS], order=order, notes=notes,
        found={"number": number, "pages": pages, "total": len(ordered)}, unasked=overview.unasked, kinds=KINDS,
        machines=len({row["address"].rpartition(":")[0] for row in rows}), total=len(rows),
        kept={"q": word, "kind": kind, "sort": order.text if order != Order("client_id") else None},
    )  # fmt: skip


def fits(row: dict[str, Any], word: str | None) -> bool:
    """Whether ``word`` is in anything that a row shows as text, in any letter case."""
    if word is None:
        return True
    low = word.lower()
    return any(low in row[name].lower() for name in ("client_id", "group", "address", "language", "protocol", "broker"))


async def one_by_one(console: Console, overview: Overview, notes: list[str]) -> list[dict[str, Any]]:
    """The clients of brokers that do not tell all at once: all producers, and the consumers of some groups."""
    if overview.is_whole:
        return []
    told = {broker for broker, _ in overview.clients}
    rows: list[dict[str, Any]] = []
    for one in overview.unasked:
        if one.broker in told or (one.gone and not one.denied):
            continue
        try:
            producers = await console.admin.consumers.producers(one.broker)
        except GantryError as error:
            notes.append(f"The producers of {one.broker} are not known: {error}")
            continue
        now_ms = console.clock.wall_ms()
        rows += [
            {
                "broker": one.broker, "kind": "producer", "group": group, "client_id": member.client_id,
                "address": member.remote_ip.lstrip("/"), "language": member.language or "–",
                "version": version_name(member.version), "protocol": "remoting",
                "heard_ms": max(now_ms - member.last_update_timestamp, 0) if member.last_update_timestamp else None,
            }
            for group, members in producers.data.items()
            for member in members
        ]  # fmt: skip
    return rows + await _consumers(console, notes)


async def _consumers(console: Console, notes: list[str]) -> list[dict[str, Any]]:
    try:
        groups = [name for name in await console.admin.groups.all() if not of_system(name)]
        found = await details(groups[:GROUPS_MAX], console.admin.consumers.connections)
    except GantryError as error:
        notes.append(f"The consumers of these brokers are not known: {error}")
        return []
    if len(groups) > GROUPS_MAX:
        notes.append(f"Only the first {GROUPS_MAX} of {len(groups)} consumer groups were asked about.")
    return [
        {
            "broker": "", "kind": "consumer", "group": group, "client_id": member.client_id,
            "address": member.client_addr, "language": member.language or "–",
            "version": version_name(member.version), "protocol": "remoting", "heard_ms": None,
        }
        for group, online in zip(groups, found, strict=False)
        if online is not None
        for member in online.connection_set
    ]  # fmt: skip
