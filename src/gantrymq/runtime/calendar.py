"""Times for people. Clients send numbers as times, and a number may be no date: one in microseconds, for example."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

LAST_MS: Final = 253_370_764_799_999
"""The end of the year 9998: no time zone leads from there behind the last date that exists in Python."""


def utc_of(time_ms: int) -> datetime | None:
    """ms since 1970 as a time in UTC; None when it is no date."""
    return datetime.fromtimestamp(time_ms / 1000, UTC) if 0 <= time_ms <= LAST_MS else None


def iso(time_ms: int) -> str:
    """ms since 1970 as ISO 8601 in UTC; the number when it is no date."""
    moment = utc_of(time_ms)
    return f"{time_ms} ms" if moment is None else moment.isoformat(timespec="milliseconds")
