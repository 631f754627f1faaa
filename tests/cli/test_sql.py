"""``gantry sql``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gantrymq.cli import sql as cli_sql
from gantrymq.sql import Transactions
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.outbox_table import outbox_ddl, row_id
from gantrymq.sql.rows.tables import ddl
from gantrymq.sql.rows.transaction_id import make
from gantrymq.sql.upkeep import cleaning
from gantrymq.testing import LocalCluster
from tests.cli.tool import Tool
from tests.sql.databases import Place, database, database_server, mariadb, postgresql, sqlite

__all__ = ["database", "database_server", "mariadb", "postgresql", "sqlite"]


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool("127.0.0.1:1", tmp_path / "audit.jsonl")


@pytest.mark.parametrize("kind", DatabaseKind)
def test_ddl_is_what_create_table_executes(tool: Tool, kind: DatabaseKind) -> None:
    expected = "".join(f"{each};\n" for each in [*ddl(kind), *outbox_ddl(kind)])
    assert tool.text("sql", "ddl", "--dialect", kind.value) == expected


def test_an_outbox_without_ordering_keys_gets_them(tool: Tool, database: Place) -> None:
    database.execute(*outbox_ddl(DatabaseKind(database.kind), ordered=False))
    statements = tool.text("sql", "ddl", "-d", database.kind, "--add-ordering").split(";\n")
    database.execute(*(each for each in statements if each))
    assert database.execute("SELECT order_key, seq, half FROM gantrymq_outbox") == []


def test_ddl_can_be_executed_twice(tool: Tool, database: Place) -> None:
    statements = [each for each in tool.text("sql", "ddl", "-d", database.kind).split(";\n") if each]
    database.execute(*statements, *statements)
    assert database.execute("SELECT * FROM gantrymq_outcomes") == []


def test_ddl_with_other_names(tool: Tool, database: Place) -> None:
    text = tool.text("sql", "ddl", "-d", database.kind, "--table", "outcomes", "--inbox-table", "inbox",
                     "--outbox-table", "outbox")  # fmt: skip
    database.execute(*(each for each in text.split(";\n") if each))
    assert database.execute("SELECT * FROM outcomes") == database.execute("SELECT * FROM inbox") == []
    assert database.execute("SELECT * FROM outbox") == []


def test_what_is_wrong_is_said(tool: Tool) -> None:
    assert "'oracle' is not one of" in tool.fails("sql", "ddl", "--dialect", "oracle", status=2)
    assert "Missing option '--dialect'" in tool.fails("sql", "ddl", status=2)
    assert "table name 'a b' is not usable" in tool.fails("sql", "ddl", "-d", "sqlite", "--table", "a b", status=2)


DAY_MS = 86_400_000


def test_clean_deletes_old_rows_of_both_tables(tool: Tool, database: Place, gantry: LocalCluster) -> None:
    Transactions("g", database.connect, name_servers=gantry.name_servers).create_table()
    now = round(time.time() * 1000)
    for days in (1, 10, 20):
        then = now - days * DAY_MS
        database.execute(
            f"INSERT INTO gantrymq_outcomes VALUES ('{make(then, 0)}', 1, 'g')",
            f"INSERT INTO gantrymq_inbox VALUES ('g', '{days}', {then})",
        )
    arguments = ("sql", "clean", "-d", database.url(), "-n", gantry.name_servers)
    counts = "2 rows of gantrymq_outcomes and 2 rows of gantrymq_inbox"
    assert tool.text(*arguments, "--dry-run") == f"{counts} would be deleted (--dry-run)\n"
    assert "1 rows of gantrymq_outcomes and 1 rows" in tool.text(*arguments, "--dry-run", "--older-than", "360h")
    assert tool.text(*arguments) == f"{counts} were deleted\n"
    assert database.execute("SELECT message_id FROM gantrymq_inbox") == [("1",)]
    assert len(database.execute("SELECT id FROM gantrymq_outcomes WHERE id >= '0'")) == 1
    assert tool.text(*arguments).startswith("0 rows of gantrymq_outcomes and 0 rows")


def test_clean_says_what_is_wrong(tool: Tool, sqlite: Place) -> None:
    arguments = ("sql", "clean", "-d", sqlite.url())
    assert "write a number and a unit" in tool.fails(*arguments, "--older-than", "week", status=2)
    assert "rows are kept for 172800 seconds or more" in tool.fails(*arguments, "--older-than", "1d", status=2)
    assert "has no table gantrymq_outcomes" in tool.fails(*arguments, status=2)
    Transactions("g", sqlite.connect, name_servers="127.0.0.1:1").create_table()
    assert "cannot reach 127.0.0.1:1" in tool.fails(*arguments, "-n", "127.0.0.1:1")
    dead = tool.fails("sql", "clean", "-d", "postgresql+psycopg://u:secret@127.0.0.1:1/d", status=2)
    assert "cannot be read" in dead
    assert "secret" not in dead
    sqlite.execute("DROP TABLE gantrymq_inbox")
    with LocalCluster() as cluster:
        assert "no such table" in tool.fails(*arguments, "-n", cluster.name_servers)


def test_a_dry_run_does_not_count_for_ever(
    tool: Tool, sqlite: Place, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cleaning, cli_sql):
        monkeypatch.setattr(module, "COUNTED", 2)
    Transactions("g", sqlite.connect, name_servers=gantry.name_servers).create_table()
    then = round(time.time() * 1000) - 10 * DAY_MS
    sqlite.execute(*(f"INSERT INTO gantrymq_outcomes VALUES ('{make(then, number)}', 1, 'g')" for number in range(4)))
    arguments = ("sql", "clean", "-d", sqlite.url(), "-n", gantry.name_servers)
    assert tool.text(*arguments, "--dry-run").startswith("more than 2 rows of gantrymq_outcomes and 0 rows of")
    assert tool.text(*arguments).startswith("4 rows of gantrymq_outcomes and 0 rows of")


def test_rows_says_what_waits(tool: Tool, database: Place) -> None:
    arguments = ("sql", "rows", "-d", database.url())
    assert "has no table gantrymq_outbox" in tool.fails(*arguments, status=2)
    Transactions("g", database.connect, name_servers="127.0.0.1:1").create_table()
    assert tool.text(*arguments) == "no message waits in gantrymq_outbox\n"
    then = round(time.time() * 1000) - DAY_MS
    columns = "(id, producer_group, topic, message, taken_by, taken_until)"
    for number in (0, 1):
        database.execute(
            f"INSERT INTO gantrymq_outbox {columns} VALUES ('{row_id(make(then, 0), number)}', 'g', 't', '', '', 0)"
        )
    assert tool.text(*arguments).startswith("2 messages of the producer group g wait, the oldest one for 864")
    (figures,) = json.loads(tool.text(*arguments, "--json"))
    assert figures["group"] == "g" and figures["rows"] == 2 and DAY_MS / 1000 <= figures["oldest_s"] < DAY_MS / 500
    assert "table name 'a b' is not usable" in tool.fails(*arguments, "--outbox-table", "a b", status=2)


def test_rows_says_which_keys_wait_longest(tool: Tool, database: Place) -> None:
    arguments = ("sql", "rows", "--keys", "-d", database.url())
    assert "--add-ordering" in tool.fails(*arguments, status=2)
    Transactions("g", database.connect, name_servers="127.0.0.1:1").create_table()
    assert tool.text(*arguments) == "no message with an ordering key waits in gantrymq_outbox\n"
    then = round(time.time() * 1000) - DAY_MS
    columns = "(id, producer_group, topic, message, taken_by, taken_until, order_key, seq, half)"
    for number, (key, half) in enumerate([("b", "x"), ("a", ""), ("b", ""), ("", "")]):
        row = row_id(make(then, 0), number)
        values = f"'{row}', 'g', 't', '', '', 0, '{key}', {number + 1}, '{half}'"
        database.execute(f"INSERT INTO gantrymq_outbox {columns} VALUES ({values})")
    lines = tool.text(*arguments).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(
        "2 messages with the ordering key 'b' of the producer group g wait, the oldest one for 864"
    )
    assert lines[0].endswith("A broker has it, and has not confirmed the COMMIT")
    assert lines[1].startswith("1 messages with the ordering key 'a'") and lines[1].endswith("s")
    first, second = json.loads(tool.text(*arguments, "--json"))
    assert (first["key"], first["rows"], first["half"], second["key"]) == ("b", 2, "x", "a")
