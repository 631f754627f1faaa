"""How many requests were refused. A module without imports, so that metrics can read it without any protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Refusals:
    """Counts since the server started."""

    unauthenticated: int = 0
    """Requests without a signature, of an unknown or disabled user, or with a wrong signature."""
    forbidden: int = 0
    """Requests of users who may not make them."""
    guessed: int = 0
    """Requests that were not looked at, because there were too many wrong passwords before."""
