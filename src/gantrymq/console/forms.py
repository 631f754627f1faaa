"""Values of forms."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from gantrymq.errors import ConfigError


def value_of(form: Mapping[str, list[str]], name: str) -> str:
    """A field without blanks around it; empty when it is absent."""
    return form.get(name, [""])[0].strip()


def parse_time(text: str) -> int:
    """A time in UTC as people write it, or ms since 1970. Raises ConfigError."""
    if text.isascii() and text.isdigit() and 10 < len(text) < 15:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ConfigError(f"{text!r} is no time; write it like 2026-01-31 12:00 (UTC), or as ms since 1970") from None


def whole_of(form: Mapping[str, list[str]], name: str, lowest: int, highest: int) -> int | None:
    """A field with a whole number; None when it is empty. Raises ConfigError saying what to write."""
    text = value_of(form, name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19 and lowest <= int(text) <= highest):
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        label = name.replace("_", " ")
        raise ConfigError(
            f"{shown!r} is not a valid number of {label}; write a whole number from {lowest} to {highest}"
        )
    return int(text)
