"""``python -m benchmarks.cleaning``: how long the deletion of old rows takes, by the number of rows.

For each database and number of rows: both tables are filled with rows of ten days, and the older half of them is
deleted as ``gantry sql clean`` does it. Prints milliseconds for the count of ``--dry-run``, and for a batch of 1,000
rows. ``--analyze``: the databases have statistics of the tables, which planners look at.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Engine, create_engine
from tests.sql.kill.databases import KINDS, missing

from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.tables import InboxStatements
from gantrymq.sql.rules.runner import performed
from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
from gantrymq.sql.transaction.local import Local, create_tables
from gantrymq.sql.transaction.settings import TransactionsConfig
from gantrymq.sql.upkeep import cleaning

DAYS = 10
DAY_MS = 86_400_000
INSERTED = 5_000
"""Rows in one statement."""


def fill(engine: Engine, rows: int) -> int:
    """Rows of both tables, evenly over ten days; the time in the middle."""
    first = SystemClock().wall_ms() - 2 * DAYS * DAY_MS
    step = DAYS * DAY_MS / rows
    with engine.begin() as connection:
        for begin in range(0, rows, INSERTED):
            times = [(number, first + int(number * step)) for number in range(begin, min(rows, begin + INSERTED))]
            outcomes = ", ".join(f"('{transaction_id.make(at, number)}', 1, 'g')" for number, at in times)
            inbox = ", ".join(f"('g', 'orders {number:032x}', {at})" for number, at in times)
            connection.exec_driver_sql(f"INSERT INTO gantrymq_outcomes VALUES {outcomes}")
            connection.exec_driver_sql(f"INSERT INTO gantrymq_inbox VALUES {inbox}")
    return first + DAYS * DAY_MS // 2


def measured(engine: Engine, rows: int, analyze: bool) -> Iterator[str]:
    database = SqlAlchemyDatabase(engine)
    settings = TransactionsConfig(group="g", name_servers="127.0.0.1:1")
    for table in (settings.table, settings.inbox_table):
        database.alone([(f"DROP TABLE IF EXISTS {table}", ())])
    create_tables(database, settings)
    local, middle_ms = Local(database, settings), fill(engine, rows)
    if analyze:
        statement = "ANALYZE TABLE" if engine.dialect.name == "mysql" else "ANALYZE"
        for table in (settings.table, settings.inbox_table):
            database.alone([(f"{statement} {table}", ())])
    horizon, batches = cleaning.horizon_id(middle_ms, None), rows / 2 / cleaning.BATCH
    statements = InboxStatements(database.dialect(), settings.inbox_table)
    begun = time.perf_counter()
    performed(cleaning.count_outcomes(local.outcomes, horizon), database.alone)
    performed(cleaning.count_inbox(statements, middle_ms), database.alone)
    yield f"dry run {(time.perf_counter() - begun) * 1000:.0f} ms"
    begun = time.perf_counter()
    performed(cleaning.clean_outcomes(local.outcomes, horizon), database.alone)
    yield f"outcomes {(time.perf_counter() - begun) * 1000 / batches:.1f} ms a batch"
    begun = time.perf_counter()
    performed(cleaning.clean_inbox(statements, middle_ms), database.alone)
    yield f"inbox {(time.perf_counter() - begun) * 1000 / batches:.1f} ms a batch"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cleaning", description=__doc__)
    parser.add_argument("--database", choices=sorted(KINDS), nargs="+", default=sorted(KINDS))
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000, 1_000_000])
    parser.add_argument("--analyze", action="store_true", help="let the database gather statistics of the tables first")
    options = parser.parse_args()
    for kind in options.database:
        if (reason := missing(kind)) is not None:
            print(reason)
            continue
        with tempfile.TemporaryDirectory(prefix="gantry-cleaning-", ignore_cleanup_errors=True) as root:
            database = KINDS[kind](Path(root))
            database.start()
            engine = create_engine(database.url)
            try:
                for rows in options.rows:
                    print(f"{kind} {rows:,} rows:", ", ".join(measured(engine, rows, options.analyze)), flush=True)
            finally:
                engine.dispose()
                database.kill()


if __name__ == "__main__":
    main()
