"""Writes the tables of docs/permissions.md from the table of requests.

    python -m gantrymq.access.remoting.pages docs/permissions.md

A test compares the page with the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from gantrymq.access.remoting.naming import Row
from gantrymq.access.remoting.requests import BROKER_ROWS, NAME_SERVER_ROWS
from gantrymq.protocol.codes import RequestCode

BEGIN: Final = "<!-- made from src/gantrymq/access/remoting/requests.py: begin -->"
END: Final = "<!-- made from src/gantrymq/access/remoting/requests.py: end -->"


def tables() -> str:
    """A table for the broker and one for the name server."""
    return "\n".join(
        [
            "### Requests to a broker",
            "",
            *_table(BROKER_ROWS),
            "",
            "### Requests to a name server",
            "",
            *_table(NAME_SERVER_ROWS),
        ]
    )


def _table(rows: Mapping[int, Row]) -> Iterator[str]:
    yield "| code | request | what the user needs |"
    yield "|---|---|---|"
    for code, row in sorted(rows.items()):
        yield f"| {code} | {RequestCode(code).name} | {row.text} |"


def replaced(page: str) -> str:
    """The page with the tables between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    path = Path(arguments[0])
    path.write_text(replaced(path.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
