"""The error for a row that cannot be left out."""

from __future__ import annotations

from gantrymq.errors import GantryError


class RowRefused(GantryError):
    """A target refuses a row, and its message cannot become a dead letter."""
