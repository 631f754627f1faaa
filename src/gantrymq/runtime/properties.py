"""Files of settings as Java programs read them."""

from __future__ import annotations

import re
from typing import Final

SETTINGS_BYTES: Final = 262_144
"""Of the largest text that a server reads as changed settings."""


def parse_properties(text: str) -> dict[str, str]:
    """Java properties syntax as far as configuration files use it: comments, ``=`` or ``:``, continued lines."""
    values: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        while line.endswith("\\"):
            line = line[:-1] + next(lines, "").strip()
        separator = re.search(r"\s*[=:]\s*|\s+", line)
        if separator is None:
            values[line] = ""
        else:
            values[line[: separator.start()]] = line[separator.end() :].strip()
    return values
