"""How statements are written for a database and its driver. Values only.

Statements are kept with ``?`` for every parameter, and none of them has a ``?`` or a ``%`` elsewhere.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from gantrymq.errors import ConfigError


class DatabaseKind(enum.Enum):
    """The databases whose behaviour is known here and tested."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    MARIADB = "mariadb"
    SQLITE = "sqlite"


KINDS: Final = {kind.value: kind for kind in DatabaseKind}
PARAMETER_STYLES: Final = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric_dollar": "$", "numeric": ":"}
"""PEP 249's names, and SQLAlchemy's for asyncpg."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A kind of database, and how its driver wants parameters."""

    kind: DatabaseKind
    parameter_style: str

    def written(self, statement: str) -> str:
        """A statement as the driver wants it."""
        mark = PARAMETER_STYLES[self.parameter_style]
        if mark == "?":
            return statement
        if mark == "%s":
            return statement.replace("?", mark)
        numbers = iter(range(1, statement.count("?") + 1))
        return re.sub(r"\?", lambda _: f"{mark}{next(numbers)}", statement)


def dialect_of(kind: str, parameter_style: str) -> Dialect:
    """Raises ConfigError for a database or a parameter style that is not known here."""
    if kind not in KINDS:
        raise ConfigError(f"the database {kind!r} is not supported; supported are {', '.join(KINDS)}")
    if parameter_style not in PARAMETER_STYLES:
        raise ConfigError(
            f"the parameter style {parameter_style!r} of the driver is not supported; supported are "
            f"{', '.join(PARAMETER_STYLES)}"
        )
    return Dialect(KINDS[kind], parameter_style)
