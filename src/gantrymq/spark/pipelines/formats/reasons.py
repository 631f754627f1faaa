"""The texts that say why a message is a dead letter. Every target must be able to store them."""

from __future__ import annotations

from typing import Any, Final

MOST_CHARACTERS: Final = 500
_SHOWN: Final = 80


def plain(text: str) -> str:
    """A reason in one line of printable characters: it may quote a body, and a body may have anything."""
    line = " ".join(text.split())
    printable = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line[: 2 * MOST_CHARACTERS])
    return printable if len(printable) <= MOST_CHARACTERS else printable[: MOST_CHARACTERS - 3] + "..."


def shown(value: Any) -> str:
    """A value in a reason, cut where it is long."""
    text = repr(value) if isinstance(value, str | bytes | dict | list | tuple) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
