"""A Django project in this process, whose databases are exchanged for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from gantrymq import django as gantry_django
from gantrymq.testing import LocalCluster
from tests.django import GANTRYMQ
from tests.sql.databases import NO_TLS, Place, database, database_server, mariadb, postgresql, sqlite

__all__ = ["GANTRYMQ", "database", "database_server", "mariadb", "postgresql", "sqlite"]


def entry(place: Place, **options: Any) -> dict[str, Any]:
    """What DATABASES of a project says about a place."""
    if place.kind == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": place.name, "OPTIONS": options}
    engine = {"postgresql": "postgresql", "mariadb": "mysql"}[place.kind]
    if place.kind == "mariadb":
        import pymysql

        pymysql.version_info = (2, 2, 1, "final", 0)  # what it stands in for
        pymysql.install_as_MySQLdb()
        options = {**NO_TLS, **options}
    return {
        "ENGINE": f"django.db.backends.{engine}", "NAME": place.name, "USER": place.user, "HOST": "127.0.0.1",
        "PORT": place.port, "OPTIONS": options,
    }  # fmt: skip


@dataclass
class Project:
    """The project of one test."""

    gantry: LocalCluster
    opened: list[str] = field(default_factory=list)

    def use(self, place: Place, alias: str = "default", *, migrate: bool = True, **changes: Any) -> None:
        """``alias`` is the database of this place from now on."""
        options = changes.pop("OPTIONS", {})
        configured = connections.configure_settings({"default": entry(place), alias: entry(place, **options) | changes})
        connections[alias].close()
        connections.settings[alias] = configured[alias]
        del connections[alias]
        self.opened.append(alias)
        if migrate:
            call_command("migrate", database=alias, run_syncdb=True, verbosity=0)

    def bodies(self, topic: str = "orders") -> list[str]:
        return [message.body.decode() for message in self.gantry.messages(topic)]


@pytest.fixture
def project(gantry: LocalCluster) -> Iterator[Project]:
    before = dict(connections.settings)
    made = Project(gantry)
    with override_settings(GANTRYMQ=GANTRYMQ):
        yield made
        gantry_django.close()
    for alias in made.opened:
        connections[alias].close()
        connections.settings[alias] = before[alias]
        del connections[alias]


@pytest.fixture
def shop(project: Project, database: Place) -> Project:
    """A project on each kind of database."""
    project.use(database)
    return project


@pytest.fixture
def on_sqlite(project: Project, sqlite: Place) -> Project:
    project.use(sqlite)
    return project
