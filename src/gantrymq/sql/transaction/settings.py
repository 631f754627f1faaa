"""How local transactions run: the keyword arguments of all Transactions objects, and how they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.outbox_table import OUTBOX
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, check_name
from gantrymq.sql.rules.steps import Away
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
    when_broker_is_away: str = Away.REFUSE.value
    """What a commit does when no broker takes its messages: ``refuse`` rolls it back and raises; ``row`` puts the
    messages into the outbox table, in the same database transaction; ``always`` does that without asking a broker."""
    row_after_ms: int = 200
    """With ``row``: ms after the last message of a transaction in which brokers must have stored all of them. 0: as
    long as a send may take, but nobody waits when no connection to a broker is up."""
    row_limit: int = 100_000
    """How many messages of the group may be in the outbox. Then a transaction that needs it is refused."""
    outbox_table: str = OUTBOX

    def __post_init__(self) -> None:
        check_name(self.table)
        check_name(self.inbox_table)
        check_name(self.outbox_table)
        if len({self.table, self.inbox_table, self.outbox_table}) < 3:
            raise ConfigError(
                f"table, inbox_table and outbox_table name three tables, not {self.table!r}, {self.inbox_table!r} and "
                f"{self.outbox_table!r}"
            )
        if self.when_broker_is_away not in [away.value for away in Away]:
            raise ConfigError(
                f"when_broker_is_away is 'refuse', 'row' or 'always', not {self.when_broker_is_away!r}; see docs/sql.md"
            )
        for name, least, top in (("row_after_ms", 0, 60_000), ("row_limit", 1, 100_000_000)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= top:
                raise ConfigError(f"{name} is a whole number from {least} to {top}, not {number!r}")
        for name, most in (("longest_transaction", 31 * 86_400), ("claim_timeout", 60)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
                raise ConfigError(f"{name} is a number of seconds, above 0 and up to {most}, not {value!r}")
        if not isinstance(self.wait_for_brokers, bool):
            raise ConfigError(f"wait_for_brokers is True or False, not {self.wait_for_brokers!r}")
        if self.keep_rows is not None:
            check_age(self.keep_rows, self.longest_transaction)

    @property
    def away(self) -> Away:
        return Away(self.when_broker_is_away)


_OURS = frozenset(field.name for field in fields(TransactionsConfig))


def read_settings(group: str, given: Mapping[str, Any]) -> tuple[TransactionsConfig, dict[str, Any]]:
    """Our settings, and those for the producer, which are checked when it is made."""
    ours = {name: value for name, value in given.items() if name in _OURS}
    return TransactionsConfig(group=group, **ours), {name: value for name, value in given.items() if name not in _OURS}
