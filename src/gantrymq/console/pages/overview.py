"""The first page: is the cluster well, and is anything stuck."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gantrymq.console.pages.transactions import totals
from gantrymq.console.parts import Console, console_of, page, render
from gantrymq.console.plots import Line, plot

SHOWN: Final = 12
"""Findings that the page names, the worst ones."""


async def show(request: Request) -> Response:
    """Rates, latencies, disk, and the brokers."""
    console = console_of(request)
    needs, _ = await asyncio.gather(console.attention.needs(), console.samples.soon())
    return page(request, "overview.html", needs=needs, shown=SHOWN, **figures(console))


async def needs(request: Request) -> Response:
    """The part of it that says what needs a person."""
    found = await console_of(request).attention.needs()
    return HTMLResponse(render(request, "parts/needs.html", needs=found, shown=SHOWN))


def figures(console: Console) -> dict[str, Any]:
    """What refreshes itself."""
    rates, span_s = console.samples.rates(), console.samples.span_s
    plots = {
        "messages": plot(
            "Messages per second",
            [Line("in", [one.put for one in rates]), Line("out", [one.got for one in rates])], "/s", span_s,
        ),
        "commit": plot(
            "Time from half message to commit",
            [Line("mean", [one.commit_ms for one in rates])], " ms", span_s,
        ),
        "answer": plot(
            "Time until a broker answers the console",
            [Line("slowest broker", [one.answer_ms for one in rates])], " ms", span_s,
        ),
        "open": plot("Open transactions", [Line("open", [one.open for one in rates])], span_s=span_s),
    }  # fmt: skip
    sample = console.samples.newest
    return {"sample": sample, "rate": rates[-1], "plots": plots, **totals(sample)}
