"""The two tables in each database."""

from __future__ import annotations

import pytest

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, check_name, ddl
from tests.sql.databases import Place

LONGEST = "ü" * 255
TOGETHER = [("a", "A"), ("é", "e")]
"""Texts that a careless collation takes for the same. Of texts that end with spaces see ``inbox_rows``."""


def test_the_statements_may_be_repeated(database: Place) -> None:
    database.execute(*ddl(DatabaseKind(database.kind)), *ddl(DatabaseKind(database.kind)))
    assert database.execute(f"SELECT * FROM {OUTCOMES}") == database.execute(f"SELECT * FROM {INBOX}") == []


def test_names_of_the_tables_may_be_chosen(database: Place) -> None:
    schema = {"postgresql": "public", "mariadb": database.name, "sqlite": "main"}[database.kind]
    statements = ddl(DatabaseKind(database.kind), f"{schema}.outcomes_of_shop", f"{schema}.inbox_of_shop")
    database.execute(*statements, *statements)
    assert database.execute(f"SELECT * FROM {schema}.outcomes_of_shop, {schema}.inbox_of_shop") == []


def test_ids_and_groups_are_compared_exactly(database: Place) -> None:
    database.execute(*ddl(DatabaseKind(database.kind)))
    for one, other in TOGETHER:
        for group in (one, other):
            for row in (f"('{group}', '1', 0)", f"('x', '{group}', 0)"):
                database.execute(f"INSERT INTO {INBOX} VALUES {row}")
    assert database.execute(f"SELECT COUNT(*) FROM {INBOX}") == [(4 * len(TOGETHER),)]


def test_the_longest_names_have_room(database: Place) -> None:
    database.execute(*ddl(DatabaseKind(database.kind)))
    database.execute(f"INSERT INTO {OUTCOMES} VALUES ('{'f' * 32}', 1, '{LONGEST}')")
    database.execute(f"INSERT INTO {INBOX} VALUES ('{LONGEST}', '{LONGEST}', {2**53})")
    assert database.execute(f"SELECT note FROM {OUTCOMES}") == [(LONGEST,)]
    assert database.execute(f"SELECT * FROM {INBOX}") == [(LONGEST, LONGEST, 2**53)]


@pytest.mark.parametrize("kind", DatabaseKind)
def test_every_column_is_in_every_dialect(kind: DatabaseKind) -> None:
    text = "\n".join(ddl(kind))
    for column in ("id VARCHAR(32)", "outcome SMALLINT", "note VARCHAR(255)", "consumed_at BIGINT"):
        assert column in text
    assert "consumer_group, message_id)" in text and f"{INBOX}_by_time" in text


def test_mysql_gets_tables_with_transactions() -> None:
    assert "\n".join(ddl(DatabaseKind.MYSQL)).count("ENGINE=InnoDB") == 2


@pytest.mark.parametrize("name", ["", "a b", "a;b", 'a"b', "a.b.c", "1a", "a-b", "x" * 64, None, 1])
def test_a_name_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="letters, digits and _"):
        check_name(name)
