"""The pages that the menu leads to."""

from __future__ import annotations

from typing import Final

MENU: Final = (
    ("/", "Overview"),
    ("/transactions", "Transactions"),
    ("/topics", "Topics"),
    ("/consumers", "Consumers"),
    ("/clients", "Clients"),
    ("/messages", "Messages"),
    ("/traces", "Traces"),
    ("/dead-letters", "Dead letters"),
    ("/brokers", "Brokers"),
    ("/replication", "Replication"),
    ("/users", "Users"),
    ("/audit", "Audit"),
    ("/pipelines", "Pipelines"),
)
"""Path and name, in the order of the menu."""


NEEDS: Final = {"/users": "users", "/audit": "machine", "/pipelines": "machine"}
"""The right that a page needs beside that to look, as templates know it: without it the menu leaves the page out."""


def is_in(entry: str, here: str) -> bool:
    """Whether the page at ``here`` belongs to an entry of the menu."""
    return here == entry or (entry != "/" and here.startswith(f"{entry}/"))
