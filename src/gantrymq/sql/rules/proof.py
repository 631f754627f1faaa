"""The proof that a transaction is still the one that a block began, and what its savepoints mean for messages. Pure.

A mark is placed in the database when the block begins, where it is a part of that transaction only. Whatever ends the
transaction takes the mark away: a commit or rollback by the block's own code, a statement that commits (MySQL,
MariaDB), a rollback by the server (deadlock, ``INSERT OR ROLLBACK``). It is looked for right before the commit:

| database               | the mark                                 | looked for                             |
|------------------------|------------------------------------------|----------------------------------------|
| PostgreSQL             | ``set_config``, local to the transaction | by the insert of the row (``place``)   |
| MySQL, MariaDB, SQLite | a savepoint                              | by its release, which fails without it |

Savepoints that are not ours are watched where a way in sees them: ``Savepoints``.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rows.place import SETTING
from gantrymq.sql.rules.outcomes import Statement

MARK: Final = "gantrymq_begin"
RELEASE: Final = f"RELEASE SAVEPOINT {MARK}"
UNLOCK: Final = "UNLOCK TABLES"
"""Of MySQL and MariaDB. A rollback does not do that."""
_SAVEPOINT: Final = f"SAVEPOINT {MARK}"
_numbers: Final = itertools.count(1)
_MISSING: Final = ("no such savepoint", "1305")
"""What SQLite says, and the number of the error on MySQL and MariaDB."""


def new_mark() -> str:
    """Another one for each block. A transaction that the block did not begin has none at all, so that is enough."""
    return f"block-{next(_numbers)}"


def place_mark(dialect: Dialect, mark: str) -> Statement:
    """The statement that places it. Its text is always the same: drivers keep such a statement prepared."""
    if dialect.kind.facts.compares_mark:
        return dialect.written(f"SELECT set_config('{SETTING}', ?, true)"), (mark,)
    return _SAVEPOINT, ()


def look(kind: DatabaseKind) -> str:
    """The statement that looks for the mark, without a message: on PostgreSQL it returns it, and elsewhere it fails
    without it (``is_missing``)."""
    return f"SELECT current_setting('{SETTING}', true)" if kind.facts.compares_mark else RELEASE


def is_missing(error: BaseException) -> bool:
    """Whether this says that there is no such savepoint."""
    return any(missing in str(error) for missing in _MISSING)


_COMMANDS: Final = re.compile(
    r"\s*(?:(?P<begin>SAVEPOINT)|(?P<release>RELEASE(?:\s+SAVEPOINT)?)"
    r"|(?P<back>ROLLBACK(?:\s+(?:WORK|TRANSACTION))?\s+TO(?:\s+SAVEPOINT)?))\s+(?P<name>[\"`\[]?\w+[\"`\]]?)\s*;?\s*",
    re.IGNORECASE,
)


class Savepoints:
    """Which savepoints are open, and so which messages a rollback to one of them takes away.

    A message keeps the ``level`` it was sent at. A release changes no level: what was sent in it belongs to the ones
    around it, whose numbers its level has, too.
    """

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []
        self._made = 0

    @property
    def level(self) -> tuple[int, ...]:
        """The numbers of the open ones."""
        return tuple(number for _, number in self._open)

    def begin(self, name: str) -> None:
        self._made += 1
        self._open.append((_plain(name), self._made))

    def release(self, name: str) -> None:
        found = self._find(name)
        if found is not None:
            del self._open[found:]

    def roll_back(self, name: str) -> int | None:
        """The number of the savepoint: messages with it in their level are gone. None: nobody saw it begin, so all
        messages may be gone. The savepoint itself stays open."""
        found = self._find(name)
        if found is None:
            return None
        number = self._open[found][1]
        del self._open[found + 1 :]
        return number

    def _find(self, name: str) -> int | None:
        plain = _plain(name)
        return next((at for at in range(len(self._open) - 1, -1, -1) if self._open[at][0] == plain), None)


def _plain(name: str) -> str:
    return name.strip('"`[]').lower()


def command_of(statement: str) -> tuple[str, str] | None:
    """``begin``, ``release`` or ``back``, and the name, of a statement about a savepoint; None for any other."""
    if statement[:1] not in "sSrR \n\t":
        return None
    found = _COMMANDS.fullmatch(statement)
    if found is None:
        return None
    return next(word for word in ("begin", "release", "back") if found[word]), found["name"]


_COMMITS: Final = {
    True: re.compile(
        r"\s*((COMMIT|BEGIN(?!\s+NOT)|START\s+TRANSACTION)\b(?!\s+PREPARED)"
        r"|(ANALYZE|CHECK|OPTIMIZE|REPAIR)\s+(\w+\s+)?TABLES?\b)",
        re.IGNORECASE,
    ),
    False: re.compile(r"\s*(COMMIT|END)\b(?!\s+PREPARED)", re.IGNORECASE),
}


def commits(kind: DatabaseKind, statement: str) -> bool:
    """Whether the text of a statement says that it commits what was executed before. Those that commit without a word
    (DDL) are seen by the status that a MySQL server sends, see ``Guard``: but not those that answer with rows."""
    return (
        statement[:1] in "aAbBcCeEoOrRsS \n\t" and _COMMITS[kind.facts.commits_implicitly].match(statement) is not None
    )
