"""How local transactions run: the keyword arguments of all Transactions objects, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, check_name
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsConfig:
    """How the local transactions of one producer group run in one database."""

    group: str
    name_servers: str | Iterable[str]
    longest_transaction: float = 60.0
    """Seconds that a local transaction may take while its process lives. After that, a check-back rolls it back."""
    claim_timeout: float = 2.0
    """Seconds that a check-back waits for a row that a running local transaction holds. Then it answers UNKNOWN, and
    the broker asks again."""
    keep_rows: float | None = KEPT_S
    """Seconds that outcome rows are kept; once an hour, older ones are deleted in the background. None: never."""
    wait_for_brokers: bool = True
    """Whether a commit also waits until the brokers have confirmed it. If not, it returns when the database has
    committed: the brokers are told in the background, and the messages are delivered a moment later."""
    table: str = OUTCOMES
    inbox_table: str = INBOX

    def __post_init__(self) -> None:
        check_name(self.table)
        check_name(self.inbox_table)
        for name, most in (("longest_transaction", 31 * 86_400), ("claim_timeout", 60)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
                raise ConfigError(f"{name} is a number of seconds, above 0 and up to {most}, not {value!r}")
        if not isinstance(self.wait_for_brokers, bool):
            raise ConfigError(f"wait_for_brokers is True or False, not {self.wait_for_brokers!r}")
        if self.keep_rows is not None:
            check_age(self.keep_rows, self.longest_transaction)


_OURS = frozenset(field.name for field in fields(TransactionsConfig))


def read_settings(group: str, given: Mapping[str, Any]) -> tuple[TransactionsConfig, dict[str, Any]]:
    """Our settings, and those for the producer, which are checked when it is made."""
    ours = {name: value for name, value in given.items() if name in _OURS}
    return TransactionsConfig(group=group, **ours), {name: value for name, value in given.items() if name not in _OURS}
