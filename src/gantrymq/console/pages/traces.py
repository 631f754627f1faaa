"""The message trace: what the clients recorded of messages, found by id or key, or the newest steps."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.console.parts import page, text_of
from gantrymq.console.reading import Reading
from gantrymq.message import system_topics

NEWEST: Final = 20
"""Trace messages whose steps are shown when nobody asks for certain ones. A client sends up to 100 records in one."""
STEPS_SHOWN: Final = 200


async def show(request: Request) -> Response:
    """The search, and the steps."""
    word, topic = text_of(request, "word"), text_of(request, "topic") or system_topics.TRACE
    found = await Reading.of(request).traces(topic, word, NEWEST)
    # A search is read from its beginning, the newest steps from their end.
    steps = found.steps[:STEPS_SHOWN] if word is not None else found.steps[::-1][:STEPS_SHOWN]
    return page(
        request, "traces.html", word=word, topic=topic, own_topic=topic == system_topics.TRACE, found=found,
        steps=steps, cut=len(found.steps) - len(steps), one_message=len({step.message_id for step in steps}) == 1,
        first_ms=min((step.at_ms for step in steps if step.at_ms), default=0),
    )  # fmt: skip
