"""The message trace: what the clients recorded of messages, found by id or key, or the newest steps."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.console.parts import console_of, page, text_of
from gantrymq.console.reading import Reading
from gantrymq.console.waterfall import Bar, Kind, axis_of, bar_svg, bars_of, in_order, is_of_transaction
from gantrymq.errors import GantryError
from gantrymq.message import system_topics

NEWEST: Final = 20
"""Trace messages whose steps are shown when nobody asks for certain ones. A client sends up to 100 records in one."""
STEPS_SHOWN: Final = 200
BARS_SHOWN: Final = 100


async def show(request: Request) -> Response:
    """The search, and the steps."""
    word, topic = text_of(request, "word"), text_of(request, "topic") or system_topics.TRACE
    found = await Reading.of(request).traces(topic, word, NEWEST)
    one_id = {step.message_id for step in found.steps}
    notes: list[str] = []
    bars = bars_of(found.steps) if word is not None and len(one_id) == 1 else []
    if bars and is_of_transaction(found.steps):
        bars += await of_transaction(request, found.steps[0].message_id, notes)
    bars = in_order(bars)[:BARS_SHOWN]
    axis = axis_of(bars)
    rows = [] if axis is None else [(bar, bar_svg(bar, axis)) for bar in bars]
    # A search is read from its beginning, the newest steps from their end.
    steps = found.steps[:STEPS_SHOWN] if word is not None else found.steps[::-1][:STEPS_SHOWN]
    return page(
        request, "traces.html", word=word, topic=topic, own_topic=topic == system_topics.TRACE, found=found,
        steps=steps, cut=len(found.steps) - len(steps), one_message=len({step.message_id for step in steps}) == 1,
        axis=axis, bars=rows, notes=notes,
        first_ms=min((step.at_ms for step in steps if step.at_ms), default=0),
    )  # fmt: skip


async def of_transaction(request: Request, message_id: str, notes: list[str]) -> list[Bar]:
    """What brokers noted of the transaction of a message: moments, by the clocks of the brokers."""
    try:
        explained = await console_of(request).admin.explanations.of(message_id)
    except GantryError as error:
        notes.append(f"What happened to its transaction cannot be found out: {error}")
        return []
    return [
        Bar(
            str(event["what"]), f"broker {one['broker']}", int(event["at_ms"]), None, Kind.BROKER,
            detail=str(event["cause"] or ""),
        )
        for one in explained
        for event in one["events"]
        if event["at_ms"]
    ]  # fmt: skip
