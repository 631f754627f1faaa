"""Rows in versions, and transactions over them.

| isolation       | a transaction sees                                | and fails when                               |
|-----------------|---------------------------------------------------|----------------------------------------------|
| READ_COMMITTED  | what is committed when a statement begins         | -                                            |
| SNAPSHOT        | what was committed when its first statement began | a row that it changes was changed since then |
| SERIALIZABLE    | the same                                          | ... or a row that it has read was            |

PostgreSQL calls SNAPSHOT "repeatable read". Its SERIALIZABLE fails less often than this one, and never more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gantrymq.simulation.database.errors import DUPLICATE, NO_TABLE, READ_ONLY, SERIALIZATION, Error
from gantrymq.simulation.database.locks import RowLocks

Values = tuple[Any, ...]
Place = tuple[str, str]
"""Of a row: table and key."""


class Isolation(enum.Enum):
    READ_COMMITTED = "read committed"
    SNAPSHOT = "repeatable read"
    SERIALIZABLE = "serializable"


@dataclass(slots=True)
class Table:
    """``versions`` of each row: when it was committed, and its values (None: deleted)."""

    unique: bool
    versions: dict[str, list[tuple[int, Values | None]]] = field(default_factory=dict)

    def at(self, key: str, moment: int) -> Values | None:
        for committed, values in reversed(self.versions.get(key, ())):
            if committed <= moment:
                return values
        return None

    def changed_since(self, key: str, moment: int) -> bool:
        versions = self.versions.get(key)
        return bool(versions) and versions[-1][0] > moment  # type: ignore[index]


@dataclass(slots=True)
class Data:
    """All tables, and what has happened to them. ``now`` counts the commits."""

    tables: dict[str, Table] = field(default_factory=dict)
    now: int = 0
    watchers: list[Callable[[str, str, Values | None], None]] = field(default_factory=list)
    """Called with table, key and new values of each row, when a commit becomes durable."""

    def table(self, name: str) -> Table:
        if name not in self.tables:
            raise Error(NO_TABLE, f'relation "{name}" does not exist')
        return self.tables[name]


class Work:
    """One transaction on the server."""

    def __init__(self, data: Data, locks: RowLocks, isolation: Isolation, *, replica_at: int | None = None) -> None:
        """``replica_at``: this is a read-only replica, which has the commits up to here."""
        self._data = data
        self._locks = locks
        self._isolation = isolation
        self._replica_at = replica_at
        self._snapshot: int | None = None
        self._written: dict[Place, Values | None] = {}
        self._read: dict[Place, None] = {}
        self._savepoints: list[tuple[str, dict[Place, Values | None]]] = []
        self.patience_s: float | None = None
        """How long a statement waits for a lock."""
        self.failed = False
        """A statement has failed: nothing but a rollback is possible."""

    def begin_statement(self) -> None:
        if self._snapshot is None or self._isolation is Isolation.READ_COMMITTED:
            self._snapshot = self._data.now if self._replica_at is None else self._replica_at

    # Statements.

    def get(self, table: str, key: str) -> Values | None:
        """The row as this transaction sees it."""
        found = self._data.table(table)
        self._read[table, key] = None
        if (table, key) in self._written:
            return self._written[table, key]
        assert self._snapshot is not None
        return found.at(key, self._snapshot)

    async def get_locked(self, table: str, key: str) -> Values | None:
        """SELECT ... FOR SHARE: nobody else changes the row until this transaction ends."""
        self._must_write()
        await self._lock(table, key, exclusive=False)
        return self._newest(table, key)

    async def insert(self, table: str, key: str, values: Values) -> None:
        """Waits for another transaction that inserts the same key, and fails if that one commits."""
        self._must_write()
        if self._data.table(table).unique:
            await self._lock(table, key, exclusive=True)
            if self._latest(table, key) is not None:
                raise Error(DUPLICATE, f'duplicate key value violates unique constraint "{table}_pkey": {key}')
        self._written[table, key] = values

    async def change(self, table: str, key: str, change: Callable[[Values], Values | None]) -> bool:
        """UPDATE, or DELETE where ``change`` returns None; whether there was such a row."""
        self._must_write()
        if self._isolation is not Isolation.READ_COMMITTED and self.get(table, key) is None:
            return False
        await self._lock(table, key, exclusive=True)
        values = self._newest(table, key)
        if values is None:
            return False
        self._written[table, key] = change(values)
        return True

    def keys(self, table: str, first: str, end: str) -> Iterator[str]:
        """The keys of rows from ``first`` up to ``end`` (without it), in order."""
        names = {key for key in self._data.table(table).versions if first <= key < end}
        names |= {key for name, key in self._written if name == table and first <= key < end}
        return (key for key in sorted(names) if self.get(table, key) is not None)

    def create_table(self, name: str, unique: bool) -> None:
        """At once and for good; nothing happens where it exists."""
        self._must_write()
        self._data.tables.setdefault(name, Table(unique))

    def _must_write(self) -> None:
        if self._replica_at is not None:
            raise Error(READ_ONLY, "cannot execute this statement in a read-only transaction")

    async def _lock(self, table: str, key: str, *, exclusive: bool) -> None:
        self._data.table(table)
        await self._locks.take(self, (table, key), exclusive=exclusive, patience_s=self.patience_s)

    def _newest(self, table: str, key: str) -> Values | None:
        """Of a row that is locked; not as the snapshot shows it, or not at all."""
        assert self._snapshot is not None
        stale = self._data.table(table).changed_since(key, self._snapshot)
        if stale and self._isolation is not Isolation.READ_COMMITTED:
            raise Error(SERIALIZATION, "could not serialize access due to concurrent update")
        return self._latest(table, key)

    def _latest(self, table: str, key: str) -> Values | None:
        if (table, key) in self._written:
            return self._written[table, key]
        return self._data.table(table).at(key, self._data.now)

    # Savepoints. Locks of a savepoint that is rolled back stay until the end of the transaction.

    def savepoint(self, name: str) -> None:
        self._savepoints.append((name, dict(self._written)))

    def release(self, name: str) -> None:
        while self._savepoints and self._savepoints.pop()[0] != name:
            pass

    def roll_back_to(self, name: str) -> None:
        while self._savepoints and self._savepoints[-1][0] != name:
            self._savepoints.pop()
        self._written = dict(self._savepoints[-1][1])
        self.failed = False

    # The end.

    @property
    def writes(self) -> bool:
        return bool(self._written)

    def commit(self) -> None:
        """Everything becomes durable and visible at this moment. Raises Error."""
        if self._isolation is Isolation.SERIALIZABLE and self._written:
            self._verify_reads()
        if self._written:
            self._data.now += 1
        for (table, key), values in self._written.items():
            self._data.table(table).versions.setdefault(key, []).append((self._data.now, values))
        for (table, key), values in self._written.items():
            for watch in self._data.watchers:
                watch(table, key, values)
        self._locks.release(self)

    def _verify_reads(self) -> None:
        assert self._snapshot is not None
        for table, key in self._read:
            if self._data.table(table).changed_since(key, self._snapshot):
                raise Error(SERIALIZATION, "could not serialize access due to read/write dependencies")

    def roll_back(self) -> None:
        self._written = {}
        self._locks.release(self)
