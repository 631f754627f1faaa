"""``gantry sql``."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.sql.dialect import Kind
from gantrymq.sql.tables import ddl
from tests.cli.tool import Tool
from tests.sql.databases import Place, database, database_server, mariadb, postgresql, sqlite

__all__ = ["database", "database_server", "mariadb", "postgresql", "sqlite"]


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool("127.0.0.1:1", tmp_path / "audit.jsonl")


@pytest.mark.parametrize("kind", Kind)
def test_ddl_is_what_create_table_executes(tool: Tool, kind: Kind) -> None:
    assert tool.text("sql", "ddl", "--dialect", kind.value) == "".join(f"{each};\n" for each in ddl(kind))


def test_ddl_can_be_executed_twice(tool: Tool, database: Place) -> None:
    statements = [each for each in tool.text("sql", "ddl", "-d", database.kind).split(";\n") if each]
    database.execute(*statements, *statements)
    assert database.execute("SELECT * FROM gantrymq_outcomes") == []


def test_ddl_with_other_names(tool: Tool, database: Place) -> None:
    text = tool.text("sql", "ddl", "-d", database.kind, "--table", "outcomes", "--inbox-table", "inbox")
    database.execute(*(each for each in text.split(";\n") if each))
    assert database.execute("SELECT * FROM outcomes") == database.execute("SELECT * FROM inbox") == []


def test_what_is_wrong_is_said(tool: Tool) -> None:
    assert "'oracle' is not one of" in tool.fails("sql", "ddl", "--dialect", "oracle", status=2)
    assert "Missing option '--dialect'" in tool.fails("sql", "ddl", status=2)
    assert "table name 'a b' is not usable" in tool.fails("sql", "ddl", "-d", "sqlite", "--table", "a b", status=2)
