"""The option ``--older-than`` of commands that delete."""

from __future__ import annotations

import re
from typing import Final

from gantrymq.errors import ConfigError

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def seconds_of(text: str) -> float:
    """``7d`` or ``100h`` in seconds. Raises ConfigError."""
    found = re.fullmatch(r"(\d+)([smhd])", text.strip())
    if found is None:
        raise ConfigError(f"--older-than {text!r}: write a number and a unit, s, m, h or d, for example 7d")
    return float(found[1]) * _UNITS[found[2]]
