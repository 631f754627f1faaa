"""What this process knows of the messages that wait in the outbox, and whether brokers answer. Any thread may ask."""

from __future__ import annotations

from typing import Final

from gantrymq.errors import OutboxFull
from gantrymq.runtime.clock import Clock
from gantrymq.sql.rows.outbox_table import started_ms
from gantrymq.sql.transaction.settings import TransactionsConfig


class Waiting:
    """The rows of one producer group, as they were counted last."""

    def __init__(self, clock: Clock, settings: TransactionsConfig) -> None:
        self._clock: Final = clock
        self._limit: Final = settings.row_limit
        self.group: Final = settings.group
        self._counted = 0
        """Rows in the table when they were counted last, without those that this process has sent since. The relay
        alone writes it."""
        self._inserted: list[int] = []
        """How many rows each transaction of this process has inserted since then. Threads append to it at the same
        time, which needs no lock."""
        self.oldest: str | None = None
        """The smallest id."""
        self.away = False
        """No broker took the messages of a transaction, and since then none has taken any: nobody waits for one."""

    def check_room(self, wanted: int) -> None:
        """Raises OutboxFull when these messages would be more than ``row_limit``."""
        if self.count + wanted > self._limit:
            raise OutboxFull(self.count, self._limit)

    @property
    def count(self) -> int:
        """Rows that wait. At most those of a second are not among it, or twice."""
        return self._counted + sum(self._inserted)

    def inserted(self, rows: int) -> None:
        """A local transaction has committed these."""
        self._inserted.append(rows)

    def begin_to_count(self) -> int:
        """For ``counted``. What is inserted from here on may be missed by the count, so it is added to it."""
        return len(self._inserted)

    def counted(self, begun: int, count: int, oldest: str | None) -> None:
        self._counted, self.oldest = count, oldest
        del self._inserted[:begun]

    def sent(self, rows: int) -> None:
        self._counted -= min(rows, self.count)

    @property
    def oldest_age_s(self) -> float:
        """Seconds since the transaction of the oldest row began; 0: there is none."""
        oldest = self.oldest
        return 0.0 if oldest is None else max(0.0, (self._clock.wall_ms() - started_ms(oldest)) / 1000)
