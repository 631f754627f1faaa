"""The deletion of old rows reads each of them a few times, however many rows there are: by the counters of each
database. InnoDB locks what a DELETE reads, so this is also how many rows others have to wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.connections.drivers import driver_of
from gantrymq.sql.rows.dialect import KINDS
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, InboxStatements, ddl
from gantrymq.sql.rules.outcomes import Outcomes
from gantrymq.sql.rules.runner import performed
from gantrymq.sql.upkeep import cleaning
from tests.sql.databases import Place

OLD, YOUNG = 8_000, 8_000
READS_OF_A_ROW = 7
"""The edge of its batch, the count and the deletion; PostgreSQL counts an index and its table."""
STEPS_OF_A_READ = 15
"""Of SQLite's machine."""
DAY_MS = 86_400_000
SERIES = {
    "postgresql": (
        "generate_series(0, {count} - 1) AS n",
        "lpad(to_hex({first} + n), 12, '0') || lpad(to_hex(n), 20, '0')",
    ),
    "mariadb": (
        "(SELECT seq AS n FROM seq_1_to_{count}) AS numbers",
        "LOWER(CONCAT(LPAD(HEX({first} + n), 12, '0'), LPAD(HEX(n), 20, '0')))",
    ),
    "sqlite": (
        "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s LIMIT {count}) SELECT n FROM s)",
        "printf('%012x%020x', {first} + n, n)",
    ),
}
"""Numbers, and the id of the transaction with a number."""
READS = {
    "postgresql": "SELECT (SELECT SUM(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables) + "
    "(SELECT SUM(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_stat_user_indexes)",
    "mariadb": "SELECT SUM(variable_value) FROM information_schema.session_status "
    "WHERE variable_name LIKE 'Handler_read%'",
}
"""Of this connection; PostgreSQL: of this transaction."""


class Reader:
    """One connection, in one transaction: rows that were deleted are still in the way, as they are for a time in each
    of these databases."""

    def __init__(self, place: Place, connection: Any) -> None:
        self._kind = place.kind
        self._driver = driver_of(connection)
        self.dialect = self._driver.dialect()
        self._steps = 0
        if place.kind == "sqlite":
            connection.set_progress_handler(self._step, STEPS_OF_A_READ)

    def _step(self) -> None:
        self._steps += 1

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
        rows: Any = ()
        for statement in statements:
            rows = self._driver.execute(statement) or rows
        return rows

    def reads(self) -> int:
        if self._kind == "sqlite":
            return self._steps
        return int(self._driver.execute((READS[self._kind], ()))[0][0])


@contextmanager
def reader_of(place: Place) -> Iterator[Reader]:
    connection = place.connect()
    try:
        yield Reader(place, connection)
        connection.commit()
    finally:
        connection.close()


def fill(place: Place) -> int:
    """Both tables, with rows of ten days and of today, one for each millisecond; a time between them."""
    now_ms = SystemClock().wall_ms()
    numbers, made = SERIES[place.kind]
    place.execute(*ddl(KINDS[place.kind]))
    place.execute(f"INSERT INTO {OUTCOMES} VALUES ('#database', 0, 'here')")
    for first, count in ((now_ms - 10 * DAY_MS, OLD), (now_ms, YOUNG)):
        source, one = numbers.format(count=count), made.format(first=first)
        place.execute(
            f"INSERT INTO {OUTCOMES} SELECT {one}, 1, 'g' FROM {source}",
            f"INSERT INTO {INBOX} SELECT 'g', {one}, {first} + n FROM {source}",
        )
    return now_ms - DAY_MS


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["without statistics", "with statistics"])
def test_each_row_is_read_a_few_times(database: Place, known: bool) -> None:
    """A planner may decide otherwise when it knows how the tables look."""
    before_ms = fill(database)
    if known:
        word = "ANALYZE TABLE" if database.kind == "mariadb" else "ANALYZE"
        database.execute(*(f"{word} {table}" for table in (OUTCOMES, INBOX)))
    with reader_of(database) as reader:
        outcomes, inbox = Outcomes(reader.dialect, "g"), InboxStatements(reader.dialect)
        horizon, deleted = cleaning.horizon_id(before_ms, None), []
        reads = [reader.reads()]
        deleted.append(performed(cleaning.count_outcomes(outcomes, horizon), reader.alone))
        deleted.append(performed(cleaning.count_inbox(inbox, before_ms), reader.alone))
        reads.append(reader.reads())
        deleted.append(performed(cleaning.clean_outcomes(outcomes, horizon), reader.alone))
        reads.append(reader.reads())
        deleted.append(performed(cleaning.clean_inbox(inbox, before_ms), reader.alone))
        reads.append(reader.reads())
    assert deleted == [OLD] * 4
    assert [database.execute(f"SELECT COUNT(*) FROM {table}")[0][0] for table in (OUTCOMES, INBOX)] == [
        YOUNG + 2,
        YOUNG,
    ]
    each = [round((after - before) / OLD, 1) for before, after in pairwise(reads)]
    print(f"reads of a row: {each}")
    assert max(each) <= READS_OF_A_ROW, f"count, outcomes, inbox: {each}"
