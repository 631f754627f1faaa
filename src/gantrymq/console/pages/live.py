"""Parts of pages that refresh themselves: rendered here at each new sample, sent as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gantrymq.console.guard import token_of
from gantrymq.console.pages import overview, transactions
from gantrymq.console.parts import Console, console_of, render, session_of

PARTS: Final[dict[str, tuple[str, Callable[[Console], dict[str, Any]]]]] = {
    "transactions": ("parts/transaction_figures.html", transactions.figures),
    "overview": ("parts/overview_figures.html", overview.figures),
}
"""Name to template, and what it shows."""


async def stream(request: Request) -> Response:
    """Events until the page is left, or the session ends."""
    part = PARTS.get(request.path_params["name"])
    if part is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    # nginx would keep the events back.
    return StreamingResponse(
        events(request, *part), headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream"
    )


async def events(
    request: Request, template: str, figures: Callable[[Console], dict[str, Any]]
) -> AsyncIterator[str]:  # fmt: skip
    console = console_of(request)
    yield "retry: 5000\n\n"
    async for _ in console.samples.watch():
        if session_of(request) is not None and console.sessions.of(token_of(request, console), touch=False) is None:
            return
        banner = f'<div id="banner" hx-swap-oob="true">{render(request, "parts/banner.html")}</div>'
        yield event("figures", render(request, template, **figures(console)) + banner)


def event(name: str, html: str) -> str:
    """One server-sent event."""
    data = "".join(f"data: {line}\n" for line in html.splitlines() if line.strip())
    return f"event: {name}\n{data}\n"
