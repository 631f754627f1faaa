"""Old rows are deleted: outcomes that nobody will ask for, and messages that will not come again. Pure.

**Outcomes.** A check-back that finds no row says that the transaction is rolled back. So a missing row must never be
one that was deleted. Four rules keep that:

1. The row ``#cleaned`` is moved to the horizon before any row is deleted. Who does not find an id below it answers
   UNKNOWN.
2. A claim looks at ``#cleaned`` in the statement that inserts its mark, and holds that row until it has ended. So when
   the horizon moves, no claim of an id below it is under way, and none begins.
3. A local transaction cannot commit when it is older than ``longest_transaction`` or than a day, whatever is more. The
   horizon is at least a day further back, so the mark of a claim is there as long as it is needed.
4. The horizon stays below the oldest transaction whose half message is open at a broker, as far as brokers can be
   asked. This rule keeps answers, the others keep safety: without it such a half message is answered UNKNOWN.

Clocks may differ by a day: ids have the time of the process that made them; the horizon is computed from the clock of
the database or of this process, whichever is behind.

**Inbox.** A row must stay as long as its message can come again. A broker keeps a message for 72 hours
(``fileReservedTime``), so a group that was reset, or was stopped for days, can get it at that age. It may send it back
then, and the copy in the retry topic is kept for another 72 hours. The seventh day is for clocks that differ.

**Batches.** Rows are deleted from the oldest one on. Each batch is a transaction of its own and begins where the last
one ended, so it reads and locks its own rows only. Both columns have an index from the beginning: the primary key of
the outcomes, and ``gantrymq_inbox_by_time``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeVar

from gantrymq.errors import ConfigError
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rows.tables import CLEANED, NOW, BatchStatements, InboxStatements
from gantrymq.sql.rules.claim import ATTEMPTS, Rows
from gantrymq.sql.rules.outcomes import Outcomes, Statement
from gantrymq.sql.rules.runner import perform

T = TypeVar("T")
Tell = Callable[[int], object]
Asking = Generator[list[Statement], Rows, T]
"""Asks for statements, gets the rows of the last one that has any. Errors of the database are raised into it."""
DAY_S: Final = 86_400.0
KEPT_S: Final = 7 * DAY_S
BATCH: Final = 1_000
"""Rows in one statement: other transactions wait for it for some milliseconds only. In the inbox, all rows of one
millisecond are in one batch."""
COUNTED: Final = 100_000
"""A count of old rows ends here, because databases count one by one."""
FIRST_ID: Final = "0"
"""``#database`` and ``#cleaned`` sort before it."""


def _tell_nobody(deleted: int) -> None:
    pass


def check_age(older_than: float, longest_transaction: float = 0.0) -> float:
    """Raises ConfigError for rows that may still be needed."""
    least = max(longest_transaction, DAY_S) + DAY_S
    if isinstance(older_than, bool) or not isinstance(older_than, int | float) or not least <= older_than < 1e9:
        raise ConfigError(
            f"rows are kept for {least:.0f} seconds or more (a day longer than a local transaction may take), not "
            f"{older_than!r}"
        )
    return float(older_than)


def now_of(kind: DatabaseKind, own_ms: int) -> Asking[int]:
    """The time in ms since 1970: by the clock of the database or of this process, whichever is behind."""
    rows = yield from _again([(NOW[kind], ())])
    return min(own_ms, int(rows[0][0]))


def horizon_of(outcomes: Outcomes, own_ms: int, older_than: float, every_s: float = 0.0) -> Asking[int | None]:
    """The time before which rows may be deleted. None: the last cleaning, of whatever process, is not ``every_s``
    behind. Two that ask at the same time may both clean, which does no harm."""
    horizon_ms = (yield from now_of(outcomes.dialect.kind, own_ms)) - round(older_than * 1000)
    if every_s:
        rows = yield from _again(outcomes.look())
        last = {row[0]: row[2] for row in rows}.get(CLEANED, "")
        if last >= transaction_id.first_of(max(0, horizon_ms - round(every_s * 1000))):
            return None
    return horizon_ms


def horizon_id(horizon_ms: int, oldest_open: str | None) -> str:
    """The id below which rows may be deleted. ``oldest_open``: a transaction whose half message is open."""
    horizon = transaction_id.first_of(max(0, horizon_ms))
    return horizon if oldest_open is None else min(horizon, oldest_open)


def clean_outcomes(outcomes: Outcomes, horizon: str, tell: Tell = _tell_nobody) -> Asking[int]:
    """Delete the rows of ids below ``horizon``; how many there were. ``tell`` gets the number behind each batch."""
    make_mark, move_horizon = outcomes.move_horizon(horizon)
    try:
        yield make_mark
    except Exception as error:
        if read_failure(error) is not Failure.DUPLICATE:
            raise
    yield from _again(move_horizon)
    return (yield from _delete(outcomes.cleaning, FIRST_ID, horizon, tell))


def clean_inbox(statements: InboxStatements, before_ms: int, tell: Tell = _tell_nobody) -> Asking[int]:
    """Delete the rows of messages that were consumed before this time; how many there were."""
    return (yield from _delete(statements.cleaning, 0, before_ms, tell))


def clean_inbox_by_age(statements: InboxStatements, own_ms: int, older_than: float) -> Asking[int]:
    """The same for those that were consumed more than this many seconds ago."""
    now_ms = yield from now_of(statements.kind, own_ms)
    return (yield from clean_inbox(statements, now_ms - round(older_than * 1000)))


def _delete(statements: BatchStatements, first: Any, before: Any, tell: Tell) -> Asking[int]:
    deleted = 0
    while True:
        found = yield from _again([(statements.edge, (first, BATCH, before))])
        last = found[0][0]
        if last is None:
            return deleted
        rows = yield from _again([(statements.count, (first, last)), (statements.delete, (first, last))])
        deleted += int(rows[0][0])
        tell(deleted)
        first = last


async def clean_by_age(
    outcomes: Outcomes, alone: Callable[[list[Statement]], Awaitable[Rows]], own_ms: int, older_than: float,
    every_s: float, oldest_open: Callable[[], Awaitable[str | None]],
) -> None:  # fmt: skip
    """Delete the outcome rows that are older than this many seconds, as ``horizon_of`` and ``clean_outcomes`` say.
    ``oldest_open``: asks the brokers, see ``open_halves``."""
    horizon_ms = await perform(horizon_of(outcomes, own_ms, older_than, every_s), alone)
    if horizon_ms is not None:
        await perform(clean_outcomes(outcomes, horizon_id(horizon_ms, await oldest_open())), alone)


def count_outcomes(outcomes: Outcomes, horizon: str) -> Asking[int]:
    """How many rows ``clean_outcomes`` would delete; COUNTED + 1: more than COUNTED."""
    rows = yield from _again([(outcomes.cleaning.old, (FIRST_ID, horizon, COUNTED + 1))])
    return int(rows[0][0])


def count_inbox(statements: InboxStatements, before_ms: int) -> Asking[int]:
    """The same for ``clean_inbox``."""
    rows = yield from _again([(statements.cleaning.old, (0, before_ms, COUNTED + 1))])
    return int(rows[0][0])


def _again(statements: list[Statement]) -> Asking[Rows]:
    """A statement that met another one may be repeated, and one on a pooled connection that had died."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return (yield statements)
        except Exception as error:
            if attempt == ATTEMPTS or read_failure(error) not in (Failure.CONFLICT, Failure.DISCONNECTED):
                raise
    raise AssertionError
