"""``manage.py gantrymq_clean``: old rows are deleted now, and not within the next hour by a web process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gantrymq.django import project_settings, running, upkeep
from gantrymq.errors import GantryError
from gantrymq.sql.transaction.settings import TransactionsConfig
from gantrymq.sql.upkeep.cleaning import DAY_S, KEPT_S, check_age


class Command(BaseCommand):
    help = "Deletes outcomes that nobody will ask for, and the inbox's rows of messages that will not come again."

    def add_arguments(self, parser: CommandParser) -> None:
        words = 'only in this database; default: all of GANTRYMQ["DATABASES"]'
        parser.add_argument("--database", help=words)
        parser.add_argument("--days", type=float, default=KEPT_S / DAY_S, help="how old rows must be (default: 7)")

    def handle(self, *arguments: Any, database: str | None, days: float, **options: Any) -> None:
        try:
            settings = project_settings.read()
            own = settings.of(database or next(iter(settings.databases), "default"))
            for alias, one in settings.databases.items() if database is None else [(database, own)]:
                self._clean(alias, one, days)
        except GantryError as error:
            raise CommandError(str(error)) from error
        finally:
            running.close()

    def _clean(self, alias: str, settings: TransactionsConfig, days: float) -> None:
        older_than = check_age(days * DAY_S, settings.longest_transaction)
        found = running.running(alias)
        upkeep.clean_outcomes(found.local, found.producer, older_than)
        upkeep.clean_inbox(alias, settings.inbox_table, older_than)
        self.stdout.write(f"rows of {alias} that are older than {days:g} days are deleted")
