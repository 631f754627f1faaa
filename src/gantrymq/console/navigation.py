"""The pages that the menu leads to."""

from __future__ import annotations

from typing import Final

MENU: Final = (
    ("/", "Overview"),
    ("/transactions", "Transactions"),
    ("/topics", "Topics"),
    ("/consumers", "Consumers"),
    ("/messages", "Messages"),
    ("/traces", "Traces"),
    ("/dead-letters", "Dead letters"),
    ("/brokers", "Brokers"),
    ("/pipelines", "Pipelines"),
)
"""Path and name, in the order of the menu."""


def is_in(entry: str, here: str) -> bool:
    """Whether the page at ``here`` belongs to an entry of the menu."""
    return here == entry or (entry != "/" and here.startswith(f"{entry}/"))
