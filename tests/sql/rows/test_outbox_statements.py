"""Which rows of the outbox are taken, on every database: of each ordering key the oldest one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gantrymq.sql import Transactions
from gantrymq.sql.connections.database import ConnectionDatabase
from gantrymq.sql.rows.outbox_statements import OutboxStatements, order_columns
from gantrymq.sql.rows.outbox_table import FREE_MS, TAKEN_MS, outbox_ddl
from tests.sql.databases import Place

GROUP = "order-service"


class Table:
    """An outbox, as a relay asks it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        Transactions(GROUP, place.connect, name_servers="127.0.0.1:1").create_table()
        self.database = ConnectionDatabase(place.connect)
        self.outbox = OutboxStatements(self.database.dialect(), ordered=True)

    def ask(self, *statements: tuple[str, tuple[Any, ...]]) -> list[Sequence[Any]]:
        return list(self.database.alone(list(statements)))

    def insert(self, *rows: tuple[str, str], group: str = GROUP) -> None:
        """Rows of id and key, in one statement."""
        blob, key = self.outbox.blob(b"x"), self.outbox.key
        values = [(row, group, "orders", blob, "", FREE_MS, *key(of)) for row, of in rows]
        self.ask((self.outbox.insert_ordered(len(rows)), tuple(value for row in values for value in row)))

    def take(self, me: str, count: int = 10, ms: int = TAKEN_MS) -> list[tuple[str, str]]:
        """The ids and keys of the rows that ``me`` has afterwards."""
        outbox = self.outbox
        if outbox.finds_first:
            ids = [row[0] for row in self.ask((outbox.find, outbox.free(GROUP, me, count)))]
            if ids:
                self.ask((outbox.take_found(len(ids)), (me, ms, GROUP, me, *ids)))
        else:
            self.ask((outbox.take, (me, ms, *outbox.free(GROUP, me, count))))
        return [(row[0], row[3]) for row in self.ask((outbox.taken, (GROUP, me, count)))]

    def delete(self, *ids: str) -> None:
        self.ask((self.outbox.delete(len(ids)), ids))


@pytest.fixture
def table(database: Place) -> Table:
    return Table(database)


def test_of_each_key_the_oldest_row_is_taken(table: Table) -> None:
    table.insert(("r-5", "a"), ("r-1", "a"), ("r-2", "b"), ("r-3", ""), ("r-4", ""))
    table.insert(("r-0", "b"))
    assert table.take("me") == [("r-2", "b"), ("r-3", ""), ("r-4", ""), ("r-5", "a")], "by their numbers, not their ids"
    assert table.take("you") == [], "a row whose older one is taken waits, too"
    table.delete("r-5", "r-3")
    assert table.take("you") == [("r-1", "a")]


def test_a_row_that_has_become_a_half_message_stops_its_key(table: Table) -> None:
    table.insert(("r-1", "a"), ("r-2", "a"))
    assert table.take("me") == [("r-1", "a")]
    become = table.outbox.become
    assert table.database.together([(become, ("half", TAKEN_MS, "r-1"), 1)])
    assert table.take("me") == [], "also for the one that has made it"
    assert not table.database.together([(become, ("another", 0, "r-1"), 1)]), "it becomes one half message only"
    table.ask((table.outbox.leave(1), (FREE_MS, "r-1")))
    assert table.take("you") == [("r-1", "a")]
    [taken] = table.ask((table.outbox.taken, (GROUP, "you", 9)))
    assert taken[4] == "half"


def test_keys_of_another_group_stop_none_of_ours(table: Table) -> None:
    table.insert(("r-1", "a"), group="other-service")
    table.insert(("r-2", "a"))
    assert table.take("me") == [("r-2", "a")]


def test_time_that_is_over_frees_a_row(table: Table) -> None:
    table.insert(("r-1", "a"))
    assert table.take("me", ms=FREE_MS) == [("r-1", "a")]
    assert table.take("you") == [("r-1", "a")]


def test_no_more_rows_are_taken_than_asked_for(table: Table) -> None:
    table.insert(*((f"r-{number}", f"key-{number}") for number in range(8)))
    assert [row for row, _ in table.take("me", 3)] == ["r-0", "r-1", "r-2"]


def test_programs_that_know_no_keys_insert_rows_into_the_same_table(table: Table) -> None:
    outbox = OutboxStatements(table.outbox.dialect)
    table.ask((outbox.insert(1), ("r-1", GROUP, "orders", outbox.blob(b"x"), "", FREE_MS)))
    table.insert(("r-2", "a"))
    assert table.take("me") == [("r-1", ""), ("r-2", "a")]


def test_a_table_says_whether_it_has_what_keys_need(database: Place) -> None:
    asked = ConnectionDatabase(database.connect)
    kind = asked.dialect().kind

    def has_order() -> bool:
        return bool(asked.alone([(order_columns(kind, "gantrymq_outbox"), ())]))

    assert not has_order(), "there is no table, and that is no error"
    database.execute(*outbox_ddl(kind, ordered=False))
    assert not has_order()
    database.execute("DROP TABLE gantrymq_outbox", *outbox_ddl(kind))
    assert has_order()
