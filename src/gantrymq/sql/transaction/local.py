"""What Transactions for threads and for event loops share: the settings, and how a local transaction is enlisted."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, check_name, ddl
from gantrymq.sql.rules.claim import Failed, Query, Rows
from gantrymq.sql.rules.creation import created
from gantrymq.sql.rules.outcomes import IDENTITY_BYTES, Outcomes, Statement, failed
from gantrymq.sql.transaction.database import Database
from gantrymq.sql.transaction.enlistment import Enlistment, Waiter, ask, marks_of
from gantrymq.sql.upkeep.cleaning import DAY_S, KEPT_S, check_age


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


class Local:
    """The database of one Transactions object, once it is known. Blocking; on an event loop it runs in greenlets."""

    def __init__(self, database: Database, settings: TransactionsConfig) -> None:
        self.database: Final = database
        self.settings: Final = settings
        self.clock, self.rng = SystemClock(), SystemRng()
        self.outcomes = Outcomes(
            database.dialect(), settings.group, settings.table, round(settings.claim_timeout * 1000)
        )
        self.identity: str = self._performed(self.outcomes.identify(self.rng.token(IDENTITY_BYTES).hex()))
        self._performed(self.outcomes.find_place())

    def _performed(self, asking: Generator[Sequence[Statement], Rows | Failed, Any]) -> Any:
        try:
            statements = next(asking)
            while True:
                try:
                    rows: Any = self.database.alone(statements)
                except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
                    rows = failed(error)
                statements = asking.send(rows)
        except StopIteration as end:
            return end.value

    def ask(self, query: Query, which: str) -> Rows | Failed:
        """For check-backs: a query of the claim."""
        return ask(self.database, self.outcomes, query, which)

    def enlist(self, client: TransactionProducer, waiter: Waiter) -> Enlistment:
        """A new local transaction with messages."""
        made = transaction_id.make(self.clock.wall_ms(), self.rng.below(transaction_id.CHANCES))
        last = last_moment(self.clock, self.settings)
        return Enlistment(
            made, marks_of(made, self.identity, self.settings.longest_transaction),
            client.halves(self.settings.longest_transaction), waiter,
            self.outcomes, self.database, self.identity, client.check, lambda: self.clock.monotonic() > last,
            self.settings.wait_for_brokers,
        )  # fmt: skip


def last_moment(clock: Clock, settings: TransactionsConfig) -> float:
    """When a local transaction that begins now can no longer commit, on the monotonic clock; see ``cleaning``."""
    return clock.monotonic() + max(settings.longest_transaction, DAY_S)


def create_tables(database: Database, settings: TransactionsConfig) -> None:
    """Create both tables unless they exist, and the row with the database's identity."""
    created(ddl(database.dialect().kind, settings.table, settings.inbox_table), database.alone)
    Local(database, settings)
