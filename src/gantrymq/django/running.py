"""The producers of this process: one for each database, started by its first message or by ``start``.

Their threads and connections do not survive a fork. A child (a worker of gunicorn with ``--preload``) starts its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import dataclass
from typing import Final

from django.db import DEFAULT_DB_ALIAS

from gantrymq.client import sync
from gantrymq.django import project_settings
from gantrymq.django.django_database import DjangoDatabase
from gantrymq.django.project_settings import ProjectSettings
from gantrymq.django.upkeep import clean_outcomes
from gantrymq.errors import ConfigError
from gantrymq.sql.rows.failures import Failure, is_database_error, read_failure
from gantrymq.sql.rows.tables import check_name
from gantrymq.sql.transaction.checker import OutcomeChecker
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.transaction.local import create_tables as create_both
from gantrymq.sql.transaction.settings import TransactionsConfig
from gantrymq.sql.transaction.thread_relay import ThreadRelay
from gantrymq.sql.transaction.waiters import ThreadWaiter
from gantrymq.sql.upkeep.hourly import EVERY_S, Upkeep


@dataclass(frozen=True, slots=True)
class Running:
    """A producer that sends messages of one database's transactions, and answers check-backs about them."""

    database: DjangoDatabase
    local: Local
    producer: sync.TransactionProducer
    upkeep: Upkeep | None
    relaying: ThreadRelay | None
    pid: int

    def close(self) -> None:
        """Nothing in a forked child, whose parent goes on."""
        if self.pid == os.getpid():
            if self.upkeep is not None:
                self.upkeep.stop()
            if self.relaying is not None:
                self.relaying.stop()
            self.producer.close()
            self.database.close()


_running: Final[dict[str, Running]] = {}
_lock = threading.Lock()


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_in_child)


def start(using: str | None = None) -> None:
    """Connect to the databases and to the brokers now: all of GANTRYMQ["DATABASES"], or one of them.

    From then on this process answers check-backs for other processes that died. Call it where a web process starts
    (``wsgi.py``). May be called again. Raises ConfigError for wrong settings and for a missing table.
    """
    settings = project_settings.read()
    settings.of(using or next(iter(settings.databases), DEFAULT_DB_ALIAS))
    for alias in settings.databases if using is None else [using]:
        running(alias)


def close() -> None:
    """Disconnect from the brokers, after waiting for transactions that run. The next message connects again."""
    with _lock:
        for alias in list(_running):
            _running.pop(alias).close()


atexit.register(close)


def enlist(using: str) -> Enlistment:
    """A new local transaction with messages in this database."""
    found = running(using)
    relay = None if found.relaying is None else found.relaying.relay
    return Enlistment(found.local, found.producer._client, ThreadWaiter(found.producer._open_portal), relay)


def running(using: str) -> Running:
    """The producer of this database, started when it is needed."""
    found = _running.get(using)
    if found is None or found.pid != os.getpid():
        with _lock:
            found = _running.get(using)
            if found is None or found.pid != os.getpid():
                found = _running[using] = _start(using, project_settings.read())
    return found


def _start(using: str, settings: ProjectSettings) -> Running:
    own = settings.of(using)
    database = DjangoDatabase(using, own.claim_timeout)
    try:
        if table_is_missing(database, own):
            raise ConfigError(
                f"the database {using!r} has no table {own.table}: run `manage.py migrate gantrymq --database {using}`"
            )
        local = Local(database, own)
        producer = sync.TransactionProducer(
            own.group, name_servers=own.name_servers, listener=OutcomeChecker(local.ask), **settings.producer
        )
        producer.start()
    except BaseException:
        database.close()
        raise
    relaying = ThreadRelay(local, producer) if local.rows else None
    return Running(database, local, producer, _upkeep(local, producer), relaying, os.getpid())


def _upkeep(local: Local, producer: sync.TransactionProducer) -> Upkeep | None:
    keep = local.settings.keep_rows
    return None if keep is None else Upkeep(lambda: clean_outcomes(local, producer, keep, EVERY_S))


def table_is_missing(database: DjangoDatabase, settings: TransactionsConfig) -> bool:
    """Raises the database's error when it cannot be asked."""
    try:
        database.alone([(f"SELECT 1 FROM {check_name(settings.table)} WHERE id = ''", ())])  # nosec B608 # the name was checked
    except Exception as error:
        if is_database_error(error) and read_failure(error) is Failure.NO_TABLE:
            return True
        raise
    return False


def create_tables(using: str = DEFAULT_DB_ALIAS) -> None:
    """Create all tables unless they exist: for tests of projects that run no migrations."""
    own = project_settings.read().of(using)
    database = DjangoDatabase(using, own.claim_timeout)
    try:
        create_both(database, own)
    finally:
        database.close()
