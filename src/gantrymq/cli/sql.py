"""``gantry sql``: the tables that ``gantrymq.sql`` has in a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from gantrymq.admin import Admin
from gantrymq.cli.ages import seconds_of
from gantrymq.cli.cluster_options import LOCAL, DryRun, NameServers, fail, guarded, with_cluster
from gantrymq.cli.databases import DatabaseUrl, describe, open_engine
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.failures import is_database_error
from gantrymq.sql.rows.outbox_table import OUTBOX, order_ddl, outbox_ddl
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, InboxStatements, check_name, ddl
from gantrymq.sql.rules.runner import performed
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.transaction.settings import TransactionsConfig
from gantrymq.sql.upkeep.cleaning import (
    COUNTED,
    check_age,
    clean_inbox,
    clean_outcomes,
    count_inbox,
    count_outcomes,
    horizon_id,
    horizon_of,
)
from gantrymq.sql.upkeep.open_halves import oldest_open
from gantrymq.sql.upkeep.outbox import outbox_groups, outbox_keys

app = typer.Typer(help="The tables of local transactions with messages (gantrymq.sql).", no_args_is_help=True)


@app.callback()
def sql() -> None:
    """The tables of local transactions with messages (gantrymq.sql)."""


@app.command("ddl")
def print_ddl(
    dialect: Annotated[DatabaseKind, typer.Option("--dialect", "-d", help="Which database they are for.")],
    table: Annotated[str, typer.Option("--table", help="Name of the outcome table, perhaps with a schema.")] = OUTCOMES,
    inbox_table: Annotated[str, typer.Option("--inbox-table", help="Name of the inbox table.")] = INBOX,
    outbox_table: Annotated[str, typer.Option("--outbox-table", help="Name of the outbox table.")] = OUTBOX,
    add_ordering: Annotated[
        bool, typer.Option("--add-ordering", help="Only add what ordering keys need to an outbox that is there.")
    ] = False,
) -> None:
    """Print the statements that create the tables, for your migrations. They may be executed again.

    With --add-ordering it prints what changes an outbox that has no ordering keys yet. That is executed once.
    """
    if add_ordering:
        statements = guarded(lambda: order_ddl(dialect, outbox_table), "sql ddl")
    else:
        statements = guarded(lambda: [*ddl(dialect, table, inbox_table), *outbox_ddl(dialect, outbox_table)], "sql ddl")
    for statement in statements:
        typer.echo(f"{statement};")


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

    Brokers are asked which half messages are open; the rows of those are kept, whatever their age. A dry run counts up
    to 100,000 rows of each table.
    """
    command = "sql clean"
    age = guarded(lambda: check_age(seconds_of(older_than), longest_transaction), command)
    engine = guarded(lambda: open_engine(database_url), command)
    from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase

    try:
        database = SqlAlchemyDatabase(engine)
        settings = TransactionsConfig(
            group="gantry-sql-clean", name_servers=name_servers, table=table, inbox_table=inbox_table
        )
        local = guarded(lambda: Local(database, settings), command)
        found = performed(horizon_of(local.outcomes, SystemClock().wall_ms(), age), database.alone)
        assert found is not None  # without an interval there is always one
        horizon = horizon_id(found, with_cluster(name_servers, lambda admin: _oldest(admin, local), command))
        inbox = InboxStatements(database.dialect(), inbox_table)
        if dry_run:
            outcomes = performed(count_outcomes(local.outcomes, horizon), database.alone)
            consumed = performed(count_inbox(inbox, found), database.alone)
        else:
            with _told(table) as tell:
                outcomes = performed(clean_outcomes(local.outcomes, horizon, tell), database.alone)
            with _told(inbox_table) as tell:
                consumed = performed(clean_inbox(inbox, found, tell), database.alone)
    except Exception as error:
        if not is_database_error(error):
            raise
        fail(f"{describe(engine)}: {(str(error).strip().splitlines() or [''])[0]}", command)
    finally:
        engine.dispose()
    verb = "would be deleted (--dry-run)" if dry_run else "were deleted"
    typer.echo(
        f"{_said(outcomes, dry_run)} rows of {table} and {_said(consumed, dry_run)} rows of {inbox_table} {verb}"
    )


@app.command()
def rows(
    database_url: DatabaseUrl,
    outbox_table: Annotated[str, typer.Option("--outbox-table", help="Name of the outbox table.")] = OUTBOX,
    of_keys: Annotated[
        bool, typer.Option("--keys", help="Show the ordering keys that wait longest, instead of producer groups.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Show the messages that wait in the outbox, because no broker has taken them: how many, and since when.

    It asks the database only. Running Transactions of the group send them, and so does `gantry checker`.
    """
    command = "sql rows"
    engine = guarded(lambda: open_engine(database_url), command)
    from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase

    try:
        database = guarded(lambda: SqlAlchemyDatabase(engine), command)
        guarded(lambda: check_name(outbox_table), command)
        asked = outbox_keys if of_keys else outbox_groups
        figures = guarded(lambda: [*asked(database, outbox_table, SystemClock().wall_ms())], command)
    except Exception as error:
        if not is_database_error(error):
            raise
        fail(f"{describe(engine)}: {(str(error).strip().splitlines() or [''])[0]}", command)
    finally:
        engine.dispose()
    names = ("group", "key", "rows", "oldest_s", "half") if of_keys else ("group", "rows", "oldest_s")
    found = [dict(zip(names, one, strict=True)) for one in figures]
    if as_json:
        typer.echo(json.dumps(found))
        return
    if not found:
        typer.echo(f"no message{' with an ordering key' if of_keys else ''} waits in {outbox_table}")
    for one in found:
        key = f" with the ordering key {one['key']!r}" if of_keys else ""
        half = ". A broker has it, and has not confirmed the COMMIT" if one.get("half") else ""
        typer.echo(
            f"{one['rows']:,} messages{key} of the producer group {one['group']} wait, the oldest one for "
            f"{one['oldest_s']:.0f} s{half}"
        )


async def _oldest(admin: Admin, local: Local) -> str | None:
    await admin.cluster_info()  # raises, where the question below only logs that nobody answers
    return await oldest_open(local.settings.name_servers, {}, local.identity)


def _said(count: int, dry_run: bool) -> str:
    return f"more than {COUNTED:,}" if dry_run and count > COUNTED else str(count)


@contextmanager
def _told(table: str) -> Iterator[Callable[[int], None]]:
    """On a terminal: how many rows are deleted so far."""
    errors = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as shown:
        task = shown.add_task(f"deleting old rows of {table} ...", total=None)
        yield lambda deleted: shown.update(task, description=f"{deleted:,} rows of {table} are deleted ...")
