"""``gantry sql``: the tables that ``gantrymq.sql`` has in a database."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from gantrymq.cli.cluster_options import guarded
from gantrymq.sql.dialect import Kind
from gantrymq.sql.tables import INBOX, OUTCOMES, ddl

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
