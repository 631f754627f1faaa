"""The address of a database of MySQL or MariaDB, as a job file has it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from gantrymq.errors import ConfigError

FORM: Final = "mysql://USER@localhost:3306/DATABASE"
_PORT: Final = 3306
_TRUSTED: Final = "ssl_ca"


@dataclass(frozen=True, slots=True)
class MysqlAddress:
    """Where a database is, and who asks."""

    host: str
    port: int
    user: str
    password: str | None
    """None: the environment may have one."""
    database: str
    ssl_ca: str | None
    """A file of certificates; with it, the connection is encrypted and the server's certificate is checked."""

    @classmethod
    def of(cls, url: str) -> MysqlAddress:
        """Raises ConfigError, which says how to write it."""
        try:
            parts = urlsplit(url)
            port = parts.port or _PORT
            options = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
        except ValueError as error:
            raise ConfigError(f"this is not an address ({error}); write {FORM}") from error
        database = unquote(parts.path.lstrip("/"))
        if parts.scheme != "mysql" or not parts.hostname or not parts.username or not database or "/" in database:
            raise ConfigError(f"this is not an address of a database; write {FORM}")
        unknown = sorted(set(options) - {_TRUSTED})
        if unknown:
            raise ConfigError(f"the address has the unknown option {unknown[0]}; there is {_TRUSTED}")
        password = None if parts.password is None else unquote(parts.password)
        ca = options.get(_TRUSTED, [None])[0]
        return cls(parts.hostname, port, unquote(parts.username), password, database, ca)
