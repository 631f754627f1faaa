"""What ``manage.py check`` says about GantryMQ. Only ``check --deploy --database default`` asks a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from django.apps.config import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections

from gantrymq.django import project_settings
from gantrymq.django.django_database import DjangoDatabase
from gantrymq.django.project_settings import NAME, ProjectSettings
from gantrymq.django.running import table_is_missing
from gantrymq.sql.rows.dialect import VENDORS
from gantrymq.sql.rules.outcomes import failed

REQUEST_S: Final = 30
"""How long web servers let a request take, as a rule (gunicorn's ``--timeout``)."""


@register(Tags.compatibility)
def check_settings(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """The setting GANTRYMQ, and the databases it names as far as DATABASES describes them."""
    settings = project_settings.read()
    found: list[CheckMessage] = [
        Error(problem.text, hint=problem.hint, id=f"gantrymq.{problem.code}") for problem in settings.problems
    ]
    return [*found, *_engines(settings), *_long_requests(settings)]


def _engines(settings: ProjectSettings) -> Iterator[CheckMessage]:
    for alias in settings.databases:
        vendor = connections[alias].vendor
        if vendor not in VENDORS:
            yield Error(
                f"the database {alias!r} is of the kind {vendor!r}, in which no transaction with messages can run",
                hint=f'Supported are {", ".join(VENDORS)} (MariaDB, too). Take it out of {NAME}["DATABASES"].',
                id="gantrymq.E008",
            )


def _long_requests(settings: ProjectSettings) -> Iterator[CheckMessage]:
    for alias, own in settings.databases.items():
        if connections[alias].settings_dict["ATOMIC_REQUESTS"] and own.longest_transaction < REQUEST_S:
            yield Warning(
                f"with ATOMIC_REQUESTS a transaction of the database {alias!r} takes as long as its request, and after "
                f"{own.longest_transaction:g} s a check-back rolls it back",
                hint=f'Raise {NAME}["LONGEST_TRANSACTION"] above the longest time of a request.',
                id="gantrymq.W001",
            )


@register(Tags.database, deploy=True)
def check_tables(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Not among the checks that ``migrate`` runs: that is what creates the tables."""
    settings = project_settings.read()
    wanted = [alias for alias in databases or () if alias in settings.databases]
    return [message for alias in wanted for message in _tables(alias, settings)]


def _tables(alias: str, settings: ProjectSettings) -> Iterator[CheckMessage]:
    own = settings.of(alias)
    database = DjangoDatabase(alias, own.claim_timeout)
    try:
        missing = table_is_missing(database, own)
    except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
        reason = failed(error).reason
        yield Error(f"the table {own.table} of the database {alias!r} cannot be read: {reason}", id="gantrymq.E010")
        return
    finally:
        database.close()
    if missing:
        yield Error(
            f"the database {alias!r} has no table {own.table}",
            hint=f"Run: manage.py migrate gantrymq --database {alias}",
            id="gantrymq.E009",
        )
