"""The deletion of old rows in both tables; see ``gantrymq.sql.upkeep.cleaning`` for what keeps that safe."""

from __future__ import annotations

from gantrymq.client.sync import TransactionProducer
from gantrymq.django import project_settings
from gantrymq.django.django_database import DjangoDatabase
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.rows.tables import InboxStatements
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.upkeep import cleaning
from gantrymq.sql.upkeep.open_halves import oldest_open


def clean_outcomes(local: Local, producer: TransactionProducer, older_than: float, every: float = 0.0) -> None:
    """Delete outcome rows of this age in seconds. ``every``: not when anybody did so within this time."""
    settings = project_settings.read()
    alone, own_ms = local.database.alone, local.clock.wall_ms()
    horizon_ms = cleaning.performed(cleaning.horizon_of(local.outcomes, own_ms, older_than, every), alone)
    if horizon_ms is not None:
        asked = (local.settings.name_servers, settings.producer, local.identity)
        horizon = cleaning.horizon_id(horizon_ms, producer._open_portal().call(oldest_open, *asked))
        cleaning.performed(cleaning.clean_outcomes(local.outcomes, horizon), alone)


def clean_inbox(using: str, table: str, older_than: float) -> None:
    """Delete the inbox's rows of this age in seconds, of all consumer groups."""
    database = DjangoDatabase(using)
    try:
        dialect = database.dialect()
        now_ms = cleaning.performed(cleaning.now_of(dialect.kind, SystemClock().wall_ms()), database.alone)
        asking = cleaning.clean_inbox(InboxStatements(dialect, table), now_ms - round(older_than * 1000))
        cleaning.performed(asking, database.alone)
    finally:
        database.close()
