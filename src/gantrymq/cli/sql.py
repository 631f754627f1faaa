"""``gantry sql``: the tables that ``gantrymq.sql`` has in a database."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gantrymq.admin import Admin
from gantrymq.cli.cluster_options import LOCAL, DryRun, NameServers, fail, guarded, with_cluster
from gantrymq.cli.databases import DatabaseUrl, describe, open_engine
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.rows.dialect import Kind
from gantrymq.sql.rows.failures import is_database_error
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, InboxStatements, check_name, ddl
from gantrymq.sql.transaction.local import Local, Settings
from gantrymq.sql.upkeep.cleaning import check_age, clean_inbox, clean_outcomes, horizon_id, horizon_of, performed
from gantrymq.sql.upkeep.open_halves import oldest_open

if TYPE_CHECKING:
    from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase

app = typer.Typer(help="The tables of local transactions with messages (gantrymq.sql).", no_args_is_help=True)


@app.callback()
def sql() -> None:
    """The tables of local transactions with messages (gantrymq.sql)."""


class Dialect(enum.StrEnum):
    """What --dialect may be."""

    POSTGRESQL = Kind.POSTGRESQL.value
    MYSQL = Kind.MYSQL.value
    MARIADB = Kind.MARIADB.value
    SQLITE = Kind.SQLITE.value


@app.command("ddl")
def print_ddl(
    dialect: Annotated[Dialect, typer.Option("--dialect", "-d", help="Which database they are for.")],
    table: Annotated[str, typer.Option("--table", help="Name of the outcome table, perhaps with a schema.")] = OUTCOMES,
    inbox_table: Annotated[str, typer.Option("--inbox-table", help="Name of the inbox table.")] = INBOX,
) -> None:
    """Print the statements that create both tables, for your migrations. They may be executed again."""
    for statement in guarded(lambda: ddl(Kind(dialect.value), table, inbox_table), "sql ddl"):
        typer.echo(f"{statement};")


_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@app.command()
def clean(
    database_url: DatabaseUrl,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Age of the rows to delete: 7d, 100h. At least 2d.")
    ] = "7d",
    longest_transaction: Annotated[
        float, typer.Option("--longest-transaction", help="That setting of your Transactions, in seconds.")
    ] = 60.0,
    table: Annotated[str, typer.Option("--table", help="Name of the outcome table, perhaps with a schema.")] = OUTCOMES,
    inbox_table: Annotated[str, typer.Option("--inbox-table", help="Name of the inbox table.")] = INBOX,
    dry_run: DryRun = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Delete old rows of both tables. Running Transactions do that by themselves, once an hour.

    Brokers are asked which half messages are open; the rows of those are kept, whatever their age.
    """
    command = "sql clean"
    age = guarded(lambda: check_age(_seconds(older_than), longest_transaction), command)
    engine = guarded(lambda: open_engine(database_url), command)
    from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase

    try:
        database = SqlAlchemyDatabase(engine)
        settings = Settings(group="gantry-sql-clean", name_servers=name_servers, table=table, inbox_table=inbox_table)
        local = guarded(lambda: Local(database, settings), command)
        found = performed(horizon_of(local.outcomes, SystemClock().wall_ms(), age), database.alone)
        assert found is not None  # without an interval there is always one
        horizon = horizon_id(found, with_cluster(name_servers, lambda admin: _oldest(admin, local), command))
        counts = _counts(database, settings, horizon, found)
        if not dry_run:
            performed(clean_outcomes(local.outcomes, horizon), database.alone)
            performed(clean_inbox(InboxStatements(database.dialect(), inbox_table), found), database.alone)
    except Exception as error:
        if not is_database_error(error):
            raise
        fail(f"{describe(engine)}: {(str(error).strip().splitlines() or [''])[0]}", command)
    finally:
        engine.dispose()
    verb = "would be deleted (--dry-run)" if dry_run else "were deleted"
    typer.echo(f"{counts[0]} rows of {table} and {counts[1]} rows of {inbox_table} {verb}")


async def _oldest(admin: Admin, local: Local) -> str | None:
    await admin.cluster_info()  # raises, where the question below only logs that nobody answers
    return await oldest_open(local.settings.name_servers, {}, local.identity)


def _counts(database: SqlAlchemyDatabase, settings: Settings, horizon: str, before_ms: int) -> tuple[int, int]:
    """How many rows of each table will be deleted."""
    written = database.dialect().written
    outcomes = f"SELECT count(*) FROM {check_name(settings.table)} WHERE id >= '0' AND id < ?"  # nosec B608 # the name was checked
    inbox = f"SELECT count(*) FROM {check_name(settings.inbox_table)} WHERE consumed_at < ?"  # nosec B608 # the name was checked
    first = database.alone([(written(outcomes), (horizon,))])[0][0]
    second = database.alone([(written(inbox), (before_ms,))])[0][0]
    return int(first), int(second)


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smhd])", text.strip())
    if found is None:
        raise ConfigError(f"--older-than {text!r}: write a number and a unit, s, m, h or d, for example 7d")
    return float(found[1]) * _UNITS[found[2]]
