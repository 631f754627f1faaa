"""The databases of these tests."""

from __future__ import annotations

from tests.sql.databases import database, database_server, mariadb, postgresql, sqlite

__all__ = ["database", "database_server", "mariadb", "postgresql", "sqlite"]
