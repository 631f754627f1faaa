"""The progress of a long run in a log file."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator

from rich.console import Console

from gantrymq.cli.progress import shown
from tests.support.sim_clock import SimClock


def test_without_a_terminal_a_line_is_printed_now_and_then() -> None:
    clock = SimClock()
    written = io.StringIO()

    def work() -> Iterator[int]:
        for number in range(10):
            asyncio.run(clock.advance(12.0))
            yield number

    console = Console(file=written, width=200)
    assert list(shown(work(), "SYNC_FLUSH", 10, console, clock)) == list(range(10))
    assert written.getvalue().splitlines() == [
        "SYNC_FLUSH: 3 of 10 in 36 s, about 84 s left",
        "SYNC_FLUSH: 6 of 10 in 72 s, about 48 s left",
        "SYNC_FLUSH: 9 of 10 in 108 s, about 12 s left",
    ]
