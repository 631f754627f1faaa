"""The console's settings: a TOML file with users. Without a file everybody who reaches the console may look, and nobody
may change anything."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gantrymq.console.identity import ROLES, Role, User
from gantrymq.console.passwords import parsed
from gantrymq.console.root_path import NO_PREFIX, RootPath, parse_root_path
from gantrymq.errors import ConfigError

IDLE_MINUTES_MAX: Final = 24 * 60
INTERVAL_MAX: Final = 3_600
_KEYS: Final = {"anonymous", "idle_minutes", "session_hours", "sample_seconds", "hosts", "behind_proxy", "users",
         "root_path", "status_dir", "reconciliations", "page_seconds", "outboxes"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """All settings."""

    users: Mapping[str, User] = field(default_factory=dict)
    broker_users: bool = False
    """People may also log in as users of the brokers (the option ``--broker-users``)."""
    anonymous: Role | None = None
    """What somebody may do who did not log in; None: nothing."""
    idle_minutes: int = 30
    """A session ends so long after its last request."""
    session_hours: int = 12
    """A session ends so long after its log-in, whatever happens."""
    sample_seconds: int = 2
    """How often the figures of the brokers are read."""
    page_seconds: int = 8
    """How long a page waits for the cluster; then it shows what was known before, marked as old."""
    hosts: tuple[str, ...] = ()
    """Names under which browsers may reach the console; empty: on the loopback address local names, else any."""
    behind_proxy: bool = False
    """A proxy on this machine ends TLS and says who asks (X-Forwarded-For, X-Forwarded-Proto)."""
    root_path: RootPath = NO_PREFIX
    """The prefix under which a reverse proxy shows the console."""

    status_dir: str = ""
    """Where streaming queries write their status; empty: where ``gantry pipeline`` has them write it."""
    reconciliations: tuple[str, ...] = ()
    """Files of ``gantry pipeline reconcile --json``."""
    outboxes: tuple[str, ...] = ()
    """Databases of services, as SQLAlchemy writes their addresses: what waits in their outboxes is shown."""


OPEN_TO_LOOK: Final = ConsoleSettings(anonymous=Role.VIEWER)
"""Without a settings file."""


def read_settings(path: Path) -> ConsoleSettings:
    """Raises ConfigError saying what is wrong, and where."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
    try:
        return parse_settings(table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_settings(table: Mapping[str, Any]) -> ConsoleSettings:
    """The settings of a decoded file. Raises ConfigError."""
    unknown = sorted(table.keys() - _KEYS)
    if unknown:
        raise ConfigError(f"unknown keys: {', '.join(unknown)}; there are: {', '.join(sorted(_KEYS))}")
    anonymous = table.get("anonymous", "nothing")
    if anonymous not in ("nothing", Role.VIEWER.text):
        raise ConfigError(f'anonymous = {anonymous!r}: write "viewer" or "nothing"')
    hosts, reports, status_dir = _texts(table, "hosts"), _texts(table, "reconciliations"), table.get("status_dir", "")
    if not isinstance(status_dir, str):
        raise ConfigError(f"status_dir = {status_dir!r}: write the path of a directory")
    if not isinstance(table.get("behind_proxy", False), bool):
        raise ConfigError("behind_proxy must be true or false")
    if not isinstance(table.get("root_path", ""), str):
        raise ConfigError('root_path must be a text, e.g. root_path = "/gantry"')
    default = ConsoleSettings()
    return ConsoleSettings(
        users=_users(table.get("users", {})),
        anonymous=Role.VIEWER if anonymous == Role.VIEWER.text else None,
        idle_minutes=_whole(table, "idle_minutes", default.idle_minutes, IDLE_MINUTES_MAX),
        session_hours=_whole(table, "session_hours", default.session_hours, 24 * 7),
        sample_seconds=_whole(table, "sample_seconds", default.sample_seconds, INTERVAL_MAX),
        page_seconds=_whole(table, "page_seconds", default.page_seconds, 600),
        hosts=tuple(host.lower() for host in hosts),
        behind_proxy=table.get("behind_proxy", False),
        root_path=parse_root_path(table.get("root_path", "")),
        status_dir=status_dir,
        reconciliations=reports,
        outboxes=_texts(table, "outboxes"),
    )


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ConfigError(f'{key} must be a list of texts, e.g. {key} = ["one", "two"]')
    return tuple(found)


def _users(table: Any) -> dict[str, User]:
    if not isinstance(table, dict):
        raise ConfigError("users must be tables: [users.ann]")
    return {name: _user(name, entry) for name, entry in table.items()}


def _user(name: str, entry: Any) -> User:
    if not isinstance(entry, dict) or entry.keys() != {"role", "password"}:
        raise ConfigError(f"[users.{name}] needs exactly the keys role and password")
    if entry["role"] not in ROLES:
        raise ConfigError(f"[users.{name}] role = {entry['role']!r}: write one of {', '.join(ROLES)}")
    parsed(str(entry["password"]))
    return User(ROLES[entry["role"]], str(entry["password"]))


def _whole(table: Mapping[str, Any], key: str, default: int, highest: int) -> int:
    value = table.get(key, default)
    if type(value) is not int or not 1 <= value <= highest:
        raise ConfigError(f"{key} = {value!r}: write a whole number from 1 to {highest}")
    return value
