"""Two-phase commit over the four databases: a coordinator with a log of its decisions, and its recovery.

| step                                                      | after a crash here, recovery                       |
|-----------------------------------------------------------|----------------------------------------------------|
| the work, in a transaction of each database               | finds nothing: the databases rolled it back        |
| PREPARE TRANSACTION in each database                      | rolls back what is prepared: no decision is logged |
| the decision is written to the log, and the log is synced | commits what is still prepared                     |
| COMMIT PREPARED in each database                          | commits what is still prepared                     |

No decision means rollback ("presumed abort"), so rollbacks need no entry.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from sqlalchemy import create_engine, text

from benchmarks.consistency.schema import ADD_UP, APPLY, PAY, parameters
from benchmarks.consistency.setting import DOWNSTREAM, ORDERS, SERVICES, Order, Setting

log = logging.getLogger(__name__)
POOL: Final = 40
PREFIX: Final = "order-"
RECOVERY_INTERVAL_S: Final = 0.5


def _named(statement: str) -> Any:
    for name in ("order", "customer", "amount"):
        statement = statement.replace(f"%({name})s", f":{name}")
    return text(statement)


WORK: Final = {ORDERS: (_named(PAY),), **dict.fromkeys(DOWNSTREAM, (_named(APPLY), _named(ADD_UP)))}


class DecisionLog:
    """Append-only file with the names of transactions that commit. Threads that wait share one sync."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        text = path.read_text()
        whole, _, torn = text.rpartition("\n")
        if torn:
            os.ftruncate(self._file, len(text) - len(torn))
        self.committed = set(whole.split())
        self._waiting: list[str] = []
        self._entry, self._turn = threading.Lock(), threading.Lock()

    def commit(self, name: str) -> None:
        """Return when the decision is on the disk."""
        with self._entry:
            self._waiting.append(name)
        with self._turn:
            if name in self.committed:  # another thread has written it together with its own
                return
            with self._entry:
                names, self._waiting = self._waiting, []
            os.write(self._file, "".join(f"{each}\n" for each in names).encode())
            os.fdatasync(self._file)
            self.committed.update(names)


class TwoPhase:
    """The order service with its coordinator."""

    def __init__(self, setting: Setting) -> None:
        self._engines = {name: create_engine(setting.url(name), pool_size=POOL) for name in SERVICES}
        self._conninfo = setting.conninfo(ORDERS)
        self._setting = setting
        self._log = DecisionLog(setting.decisions)
        self._running: set[str] = set()
        self.recover()
        threading.Thread(target=self._keep_recovering, daemon=True).start()

    def pay(self, order: Order) -> None:
        name = f"{PREFIX}{order.number}-{time.time_ns()}"
        self._running.add(name)
        try:
            with ExitStack() as stack:
                self._pay(name, order, stack)
        finally:
            self._running.discard(name)  # what is left of it is for the recovery

    def _pay(self, name: str, order: Order, stack: ExitStack) -> None:
        branches = []
        for service in SERVICES:
            connection = stack.enter_context(self._engines[service].connect())
            branch = connection.begin_twophase(f"{name}:{service}")
            branches.append(branch)
            for statement in WORK[service]:
                if connection.execute(statement, parameters(order)).rowcount != 1:
                    raise ValueError(f"order {order.number} is not open, or its customer is not known")
        for branch in branches:
            branch.prepare()
        self._log.commit(name)
        for branch in branches:
            branch.commit()

    # Recovery.

    def _keep_recovering(self) -> None:
        while True:
            time.sleep(RECOVERY_INTERVAL_S)
            try:
                self.recover()
            except Exception as error:  # noqa: BLE001 - the database may be away; it is tried again
                log.warning("recovery of prepared transactions failed, and is tried again: %s", error)

    def recover(self) -> None:
        """Settle what is prepared and belongs to nobody who runs."""
        for database, names in self._prepared().items():
            with psycopg.connect(self._setting.conninfo(database), autocommit=True) as connection:
                for gid in names:
                    verb = "COMMIT" if gid.rpartition(":")[0] in self._log.committed else "ROLLBACK"
                    with suppress(psycopg.errors.UndefinedObject):  # it was settled in the meantime
                        connection.execute(f"{verb} PREPARED '{gid}'".encode())

    def _prepared(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        before = set(self._running)
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            for gid, database in _rows(connection):
                if gid.rpartition(":")[0] not in self._running | before:
                    found.setdefault(database, []).append(gid)
        return found


def _rows(connection: psycopg.Connection[Any]) -> Iterator[tuple[str, str]]:
    yield from connection.execute("SELECT gid, database FROM pg_prepared_xacts WHERE starts_with(gid, %s)", (PREFIX,))
