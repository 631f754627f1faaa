"""``manage.py migrate`` in several processes at once, as containers that start together do it: our migration fails in
none of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connections

from gantrymq.django.operations import CreateGantryTables
from gantrymq.sql.rows.tables import OUTCOMES
from tests.django.conftest import Project
from tests.sql.databases import Place
from tests.sql.test_creation import at_once


@pytest.mark.slow
def test_migrations_at_the_same_time_all_succeed(project: Project, database: Place) -> None:
    project.use(database, migrate=False)

    def migrate(ready: Callable[[], object]) -> None:
        connection = connections["default"]  # each thread has its own
        try:
            connection.ensure_connection()
            ready()
            with connection.schema_editor() as editor:
                CreateGantryTables().database_forwards("gantrymq", editor, None, None)
        finally:
            connection.close()

    assert at_once(migrate) == []
    assert database.execute(f"SELECT COUNT(*) FROM {OUTCOMES}") == [(2,)]
