"""The databases that the simulated one is compared with."""

from __future__ import annotations

from tests.sql.databases import database_server, postgresql, sqlite

__all__ = ["database_server", "postgresql", "sqlite"]
