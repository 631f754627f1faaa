"""The deletion of old rows in both tables; see ``gantrymq.sql.upkeep.cleaning`` for what keeps that safe."""

from __future__ import annotations

from gantrymq.client.sync import TransactionProducer
from gantrymq.django import project_settings
from gantrymq.django.django_database import DjangoDatabase
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.rows.tables import InboxStatements
from gantrymq.sql.rules.runner import blocking, performed, run_blocking
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.upkeep.cleaning import clean_by_age, clean_inbox_by_age
from gantrymq.sql.upkeep.open_halves import oldest_open


def clean_outcomes(local: Local, producer: TransactionProducer, older_than: float, every: float = 0.0) -> None:
    """Delete outcome rows of this age in seconds. ``every``: not when anybody did so within this time."""
    asked = (local.settings.name_servers, project_settings.read().producer, local.identity)
    run_blocking(
        clean_by_age, local.outcomes, blocking(local.database.alone), local.clock.wall_ms(), older_than, every,
        blocking(lambda: producer._open_portal().call(oldest_open, *asked)),
    )  # fmt: skip


def clean_inbox(using: str, table: str, older_than: float) -> None:
    """Delete the inbox's rows of this age in seconds, of all consumer groups."""
    database = DjangoDatabase(using)
    try:
        asking = clean_inbox_by_age(InboxStatements(database.dialect(), table), SystemClock().wall_ms(), older_than)
        performed(asking, database.alone)
    finally:
        database.close()
