"""Waits until clients can find a new topic or group."""

from __future__ import annotations

from collections.abc import Callable

Announce = Callable[[Callable[[], None]], None]
"""Calls back when the name servers know the current topics, or could not be told in time."""
