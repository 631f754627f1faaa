"""Waiting until clients can find what was made."""

from __future__ import annotations

from collections.abc import Callable

Announce = Callable[[Callable[[], None]], None]
"""Calls back once the name servers know the topics as they are now, or could not be told in time."""
