"""``manage.py gantrymq_checker``: a process that only answers check-backs, for web processes that died."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gantrymq.django import project_settings, running
from gantrymq.errors import GantryError


class Command(BaseCommand):
    help = (
        "Answers the brokers' questions about transactions of web processes that died, until it is stopped with Ctrl-C "
        "or SIGTERM. Needed where all web processes may be gone at the same time."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        words = 'only for this database; default: all of GANTRYMQ["DATABASES"]'
        parser.add_argument("--database", help=words)

    def handle(self, *arguments: Any, database: str | None, **options: Any) -> None:
        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
        signal.signal(signal.SIGINT, lambda *_: stopped.set())
        try:
            running.start(database)
        except GantryError as error:
            raise CommandError(str(error)) from error
        try:
            settings = project_settings.read().databases
            groups = ", ".join(f"{settings[alias].group} ({alias})" for alias in settings if database in (None, alias))
            self.stdout.write(f"answers check-backs of {groups}")
            self.stdout.flush()
            # With a limit: a signal that comes just before a wait begins does not end that wait.
            while not stopped.wait(0.5):
                pass
        finally:
            running.close()
