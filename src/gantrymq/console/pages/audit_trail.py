"""Who changed what: the end of the audit file, which the console and the command line write."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.console.audit_lines import READ_MAX, fitting, read_end
from gantrymq.console.pages.topics import PAGES_MAX
from gantrymq.console.parts import console_of, number_of, page, text_of
from gantrymq.errors import ConfigError

ROWS: Final = 50


async def show(request: Request) -> Response:
    """One page of the entries, the newest first."""
    path, word = console_of(request).audit.path, text_of(request, "q")
    try:
        end = await asyncio.to_thread(read_end, path)
    except OSError as error:
        raise ConfigError(f"the audit file {path} cannot be read: {error.strerror or error}") from error
    found = fitting(end.entries, word)
    pages = max((len(found) + ROWS - 1) // ROWS, 1)
    number = min(max(number_of(request, "page", 1, PAGES_MAX), 1), pages)
    return page(
        request, "audit.html", rows=found[(number - 1) * ROWS : number * ROWS], end=end, path=path, read_max=READ_MAX,
        found={"number": number, "pages": pages, "total": len(found)}, kept={"q": word},
    )  # fmt: skip
