"""The part of a page that is made, between two marks; what people write stands around it."""

from __future__ import annotations

from typing import Final

BEGIN: Final = "<!-- made by python -m tools.pages: begin -->"
END: Final = "<!-- made by python -m tools.pages: end -->"


def between_marks(page: str, made: str) -> str:
    """The page with ``made`` between its two marks. Raises ValueError when it does not have them, once each."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page needs these two lines, once each: {BEGIN} and {END}")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made.strip()}\n\n{END}{after}"


def cell(text: str) -> str:
    """A text on one line, as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
