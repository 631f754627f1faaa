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
