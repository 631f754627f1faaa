"""The setting GANTRYMQ of a Django project: what it may contain, and everything that is wrong with it in plain words.

| key                 | meaning                                                                      | default         |
|---------------------|------------------------------------------------------------------------------|-----------------|
| GROUP               | the producer group of the project                                            | none            |
| NAME_SERVERS        | ``"host:port;host:port"`` or a list                                          | none            |
| DATABASES           | aliases whose transactions take messages, or ``{alias: producer group}``     | ``["default"]`` |
| LONGEST_TRANSACTION | see ``gantrymq.sql.transaction.settings.TransactionsConfig``                 | 60              |
| CLAIM_TIMEOUT       | see ``gantrymq.sql.transaction.settings.TransactionsConfig``                 | 2               |
| KEEP_ROWS           | see ``gantrymq.sql.transaction.settings.TransactionsConfig``                 | 7 days          |
| WHEN_BROKER_IS_AWAY | see ``gantrymq.sql.transaction.settings.TransactionsConfig``                 | ``"refuse"``    |
| ROW_AFTER_MS        | see ``gantrymq.sql.transaction.settings.TransactionsConfig``                 | 200             |
| ROW_LIMIT           | see ``gantrymq.sql.transaction.settings.TransactionsConfig``                 | 100,000         |
| PRODUCER            | further settings of the producers, by the names of TransactionProducerConfig | ``{}``          |

Each database has a producer group of its own, because a check-back asks one database: GROUP for the database
``default``, and ``GROUP-alias`` for another one, unless DATABASES names the groups.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from gantrymq.client.config import TransactionProducerConfig, parse_name_servers, settings_of
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.system_topics import check_group
from gantrymq.sql.transaction.settings import TransactionsConfig

NAME: Final = "GANTRYMQ"
_OF_TRANSACTIONS: Final = (
    "LONGEST_TRANSACTION", "CLAIM_TIMEOUT", "KEEP_ROWS", "WHEN_BROKER_IS_AWAY", "ROW_AFTER_MS", "ROW_LIMIT",
)  # fmt: skip
KEYS: Final = ("GROUP", "NAME_SERVERS", "DATABASES", *_OF_TRANSACTIONS, "PRODUCER")
EXAMPLE: Final = f'{NAME} = {{"GROUP": "shop", "NAME_SERVERS": "127.0.0.1:9876"}}'


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the setting. ``code``: the part of a system check's id behind ``gantrymq.``"""

    code: str
    text: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The setting, read. It can be used when ``problems`` is empty."""

    databases: Mapping[str, TransactionsConfig] = field(default_factory=dict)
    """For each alias."""
    producer: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def of(self, using: str) -> TransactionsConfig:
        """Raises ConfigError when the setting is wrong or does not name this database."""
        if self.problems:
            raise ConfigError("; ".join(problem.text for problem in self.problems))
        if using not in self.databases:
            raise ConfigError(
                f'the database {using!r} takes no messages: add it to {NAME}["DATABASES"] in the settings of the '
                f"project, and run `manage.py migrate gantrymq --database {using}`"
            )
        return self.databases[using]


def read() -> ProjectSettings:
    """What the project's settings say now. Connects to nothing."""
    given = getattr(settings, NAME, None)
    if not isinstance(given, Mapping):
        what = "the settings have no" if given is None else "this must be a dictionary:"
        return ProjectSettings(problems=(Problem("E001", f"{what} {NAME}", f"For example: {EXAMPLE}"),))
    problems = [*_unknown_keys(given), *_needed(given)]
    producer = given.get("PRODUCER", {})
    groups: Mapping[str, str] = {}
    try:
        groups = _groups(given)
    except ConfigError as error:
        problems.append(Problem("E005", str(error)))
    problems += _group_problems(groups)
    if not isinstance(producer, Mapping):
        problems.append(Problem("E007", f'{NAME}["PRODUCER"] must be a dictionary, not {producer!r}'))
    elif not problems:
        try:
            settings_of(TransactionProducerConfig, given["NAME_SERVERS"], producer)
        except GantryError as error:
            problems.append(Problem("E007", f'{NAME}["PRODUCER"]: {error}'))
    databases = {}
    if not problems:
        try:
            databases = {alias: _settings(given, group) for alias, group in groups.items()}
        except ConfigError as error:
            problems.append(Problem("E006", f"{NAME}: {error}"))
    return ProjectSettings(databases, producer, tuple(problems))


def _unknown_keys(given: Mapping[str, Any]) -> Iterator[Problem]:
    for key in given:
        if key not in KEYS:
            close = difflib.get_close_matches(str(key).upper(), KEYS, 1)
            hint = f"Did you mean {close[0]}?" if close else f"Known keys: {', '.join(KEYS)}."
            yield Problem("E002", f"{NAME} has an unknown key {key!r}", hint)


def _needed(given: Mapping[str, Any]) -> Iterator[Problem]:
    if not given.get("GROUP"):
        yield Problem("E003", f'{NAME} has no "GROUP": the name of the producer group', f"For example: {EXAMPLE}")
    if not given.get("NAME_SERVERS"):
        yield Problem("E004", f'{NAME} has no "NAME_SERVERS": where the name servers are', f"For example: {EXAMPLE}")
        return
    try:
        parse_name_servers(given["NAME_SERVERS"])
    except GantryError as error:
        yield Problem("E004", f'{NAME}["NAME_SERVERS"]: {error}')


def _groups(given: Mapping[str, Any]) -> Mapping[str, str]:
    """The producer group of each alias."""
    databases, group = given.get("DATABASES", [DEFAULT_DB_ALIAS]), given.get("GROUP", "")
    if isinstance(databases, Mapping):
        return dict(databases)
    if isinstance(databases, str) or not isinstance(databases, list | tuple | set | frozenset) or not databases:
        raise ConfigError(
            f'{NAME}["DATABASES"] must be a list of database aliases, or a dictionary of aliases and producer '
            f"groups, not {databases!r}"
        )
    return {alias: group if alias == DEFAULT_DB_ALIAS else f"{group}-{alias}" for alias in databases}


def _group_problems(groups: Mapping[str, str]) -> Iterator[Problem]:
    taken: dict[str, str] = {}
    for alias, group in groups.items():
        if alias not in settings.DATABASES:
            known = ", ".join(repr(known) for known in settings.DATABASES)
            yield Problem("E005", f'{NAME}["DATABASES"] names {alias!r}, which is not in DATABASES ({known})')
        try:
            check_group(group)
        except GantryError as error:
            hint = 'Name the groups yourself: "DATABASES": {"default": "shop", ...}.'
            yield Problem("E003", f"the producer group of the database {alias!r} is not usable: {error}", hint)
        if group in taken:
            text = f"the databases {taken[group]!r} and {alias!r} have the same producer group {group!r}"
            yield Problem("E003", text, "Give each database a group of its own: a check-back asks one database.")
        taken[group] = alias


def _settings(given: Mapping[str, Any], group: str) -> TransactionsConfig:
    own = {key.lower(): given[key] for key in _OF_TRANSACTIONS if key in given}
    return TransactionsConfig(group=group, name_servers=given["NAME_SERVERS"], **own)
