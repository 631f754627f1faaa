"""A table in PostgreSQL has each batch once, and says which rows it cannot have."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.pipelines.job import IcebergTarget, PostgresqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases, TargetAway
from gantrymq.spark.pipelines.targets.port import Columns, RowRefused, Writer
from gantrymq.spark.pipelines.targets.writers import open_writer
from tests.spark.pipelines.staged import added
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]


def rows(*ids: str, amount: int = 1) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.string()), "amount": pa.array([amount] * len(ids), pa.int64())})


END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""
COLUMNS = Columns(("id", "amount"), "id string, amount bigint", rows().schema)


def opened(target: Any) -> Writer:
    return open_writer(target, "t", COLUMNS, {}, OsDisk(), Databases())


def known(writer: Writer, query: str, *ids: str) -> list[str]:
    found = writer.known(query, rows(*ids).select(["id"]))
    return [] if found is None else sorted(found["id"].to_pylist())


def test_rows_of_postgresql_are_updated_by_their_key(postgresql: Place) -> None:
    postgresql.execute("CREATE TABLE orders (id text PRIMARY KEY, amount bigint, note text DEFAULT 'new')")
    target = PostgresqlTarget(dsn=postgresql.dsn, table="public.orders", key=("id",))
    writer = opened(target)
    assert added(writer, "q", 0, pa.concat_tables([rows("a", "b"), rows("a", amount=5)])) == 3
    writer.close()
    writer = opened(target)
    assert writer.has("q", 0) and not writer.has("q", 1)
    assert added(writer, "q", 0, rows("x")) == 0
    assert added(writer, "p", 0, rows("b", amount=7)) == 1
    assert writer.rows() == 2
    writer.close()
    assert postgresql.execute("SELECT id, amount, note FROM orders ORDER BY id") == [("a", 5, "new"), ("b", 7, "new")]


def test_a_task_that_ran_twice_is_in_the_table_once(postgresql: Place) -> None:
    """And rows of tasks come in the order of their numbers. The table that they are copied to goes with the run."""
    postgresql.execute("CREATE TABLE orders (id text PRIMARY KEY, amount bigint)")
    writer = opened(PostgresqlTarget(dsn=postgresql.dsn, table="orders", key=("id",)))
    stage = writer.stage("q", 0)
    lost = list(stage.write(rows("a", "x", amount=9).to_batches(), 1))
    staged = [*stage.write(rows("a", amount=2).to_batches(), 1), *stage.write(rows("a", "b").to_batches(), 0)]
    assert len(lost) == 1 and writer.accepts("q", 0, staged)
    assert writer.commit("q", 0, staged) == 3
    assert postgresql.execute("SELECT id, amount FROM orders ORDER BY id") == [("a", 2), ("b", 1)]
    left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'gantry_staged_%'"
    assert postgresql.execute(left) == [(1,)]
    writer.close()
    assert postgresql.execute(left) == [(0,)]


def test_a_connection_that_postgresql_has_ended_is_opened_again(postgresql: Place) -> None:
    """Before each kind of question. The caller repeats its batch."""
    postgresql.execute("CREATE TABLE orders (id text PRIMARY KEY, amount bigint)")
    writer = opened(PostgresqlTarget(dsn=postgresql.dsn, table="orders", key=("id",)))
    patience = Patience(5_000, SystemClock(), SystemRng())
    questions: tuple[tuple[Callable[[], object], object], ...] = (
        (lambda: writer.has("q", 0), False),
        (lambda: added(writer, "q", 0, rows("a", "b")), 2),
        (lambda: writer.others("p"), {"q": 0}),
        (lambda: known(writer, "p", "a", "x"), ["a"]),
        (writer.rows, 2),
    )
    for ask, expected in questions:
        assert postgresql.execute(END_OTHERS) == [(True,)]
        assert patience.call("asking", ask) == expected
    writer.close()


def test_a_connection_of_an_iceberg_catalog_is_opened_again(tmp_path: Path, postgresql: Place) -> None:
    pytest.importorskip("pyiceberg")
    catalog = {"type": "sql", "uri": postgresql.url(), "warehouse": f"file://{tmp_path}/lake"}
    writer = opened(IcebergTarget(table="shop.orders", catalog=catalog))
    for batch in range(2):
        assert postgresql.execute(END_OTHERS) == [(True,)]
        assert added(writer, "q", batch, rows("a")) == 1
    assert writer.rows() == 2
    writer.close()


def test_a_batch_that_postgresql_refuses_leaves_nothing(postgresql: Place) -> None:
    postgresql.execute("CREATE TABLE orders (id text PRIMARY KEY, amount bigint CHECK (amount < 5))")
    writer = opened(PostgresqlTarget(dsn=postgresql.dsn, table="orders", key=("id",)))
    refused = pa.concat_tables([rows("a"), rows("b", amount=9)])
    staged = list(writer.stage("q", 0).write(refused.to_batches(), 0))
    assert not writer.accepts("q", 0, staged)
    with pytest.raises(RowRefused, match=r"targets\.t: a row of batch 0 is refused"):
        writer.commit("q", 0, staged)
    assert (writer.rows(), writer.has("q", 0)) == (0, False)
    assert added(writer, "q", 0, rows("a")) == 1
    writer.close()


def test_every_row_that_postgresql_refuses_is_named(postgresql: Place) -> None:
    """By the types of the columns, for all of them at once; and what only the server knows, by halves."""
    postgresql.execute(
        "CREATE TABLE t (id text PRIMARY KEY, amount bigint, s varchar(3), i smallint, n numeric(5,2), f bigint, "
        "at timestamptz, u text UNIQUE DEFERRABLE INITIALLY DEFERRED, q text NOT NULL DEFAULT '', o uuid)"
    )
    table = pa.table({
        "id": ["ok", "nul", "long", "int", "digits", "large", "time", "null", "spaces"],
        "s": ["abc", "a\0", "abcd", "a", "a", "a", "a", "a", "abc  "],
        "i": [1, 1, 1, 40000, 1, 1, 1, 1, 1],
        "n": pa.array(map(Decimal, ["1.500", "1", "1", "1", "1.001", "1000", "1", "1", "1"]), pa.decimal128(10, 3)),
        "at": pa.array([0, 0, 0, 0, 0, 0, 1 << 60, 0, 0], pa.timestamp("us", "UTC")),
        "q": ["", "", "", "", "", "", "", None, ""],
    })  # fmt: skip
    writer = opened(PostgresqlTarget(dsn=postgresql.dsn, table="t", key=("id",)))
    assert writer.refusals("q", 0, table) == {
        1: "the column s has the character NUL, which no text in PostgreSQL can have",
        2: "the column s is too long for 3 characters",
        3: "the column i is a number that is too large for int2",
        4: "the column n is a number that does not fit numeric(5,2) without rounding",
        5: "the column n is a number that does not fit numeric(5,2) without rounding",
        6: "the column at is not within the years 1 to 9999",
        7: "the column q is null, and the table says NOT NULL",
    }
    only_the_server = pa.table(
        {"id": list("abcd"), "u": ["x", "x", "y", "z"], "o": [None, None, "no uuid", None], "q": [""] * 4}
    )
    assert writer.refusals("q", 0, only_the_server) == {
        1: 'PostgreSQL refuses the row: duplicate key value violates unique constraint "t_u_key"; Key (u)=(x) already '
        "exists.",
        2: 'PostgreSQL refuses the row: invalid input syntax for type uuid: "no uuid"',
    }
    good = table.take([0, 8])
    assert writer.refusals("q", 0, good) == {}
    assert postgresql.execute("SELECT count(*) FROM t") == [(0,)], "nobody sees it before the other targets are asked"
    assert writer.add("q", 0, good) == 2
    assert writer.add("q", 0, good) == 0
    assert postgresql.execute("SELECT id, s FROM t ORDER BY id") == [("ok", "abc"), ("spaces", "abc")]
    writer.close()


def test_targets_in_one_database_share_the_transaction(postgresql: Place) -> None:
    """A row can refer to a row of another target of the same batch, and both are committed at once."""
    postgresql.execute(
        "CREATE TABLE orders (id text PRIMARY KEY, amount bigint)",
        "CREATE TABLE items (id text PRIMARY KEY REFERENCES orders, amount bigint)",
    )
    databases = Databases()

    def at(table: str) -> Writer:
        target = PostgresqlTarget(dsn=postgresql.dsn, table=table, key=("id",))
        return open_writer(target, table, COLUMNS, {}, OsDisk(), databases)

    orders, items = at("orders"), at("items")
    first, second = rows("a"), rows("a", "b")
    assert orders.refusals("q", 0, first) == {}
    assert list(items.refusals("q", 0, second)) == [1]
    assert orders.refusals("q", 0, first) == {}, "all are asked again, without the message that was refused"
    second = rows("a")
    assert items.refusals("q", 0, second) == {}
    assert orders.add("q", 0, first) == 1
    assert postgresql.execute("SELECT id FROM items") == [("a",)]
    found = postgresql.execute("SELECT target FROM gantry_batches WHERE query = 'q'")
    assert found == [("orders: orders",), ("items: items",)]
    assert items.add("q", 0, second) == 1
    assert items.has("q", 0) and orders.has("q", 0)
    # The connection is lost while the transaction is open: what was in it is inserted again.
    one, two = rows("c"), rows("c")
    assert orders.refusals("q", 1, one) == {}
    postgresql.kill_connections()
    with pytest.raises(TargetAway):
        items.refusals("q", 1, two)
    assert (orders.refusals("q", 1, one), items.refusals("q", 1, two)) == ({}, {})
    assert (orders.add("q", 1, one), items.add("q", 1, two)) == (1, 1)
    assert postgresql.execute("SELECT id FROM items ORDER BY id") == [("a",), ("c",)]
    orders.close()
    items.close()


def test_a_table_that_postgresql_does_not_have(postgresql: Place) -> None:
    with pytest.raises(ConfigError, match=r'targets.t: PostgreSQL refuses: relation "orders" does not exist'):
        opened(PostgresqlTarget(dsn=postgresql.dsn, table="orders", key=("id",)))


def test_what_postgresql_would_round_is_refused(postgresql: Place) -> None:
    """Also where the column of the job has another type than the one of the table."""
    postgresql.execute(
        "CREATE TABLE t (id text PRIMARY KEY, amount bigint, n numeric(12,2), s numeric(12,2), d timestamptz(3))"
    )
    table = pa.table({
        "id": ["ok", "double", "text", "time"],
        "n": [20.25, 19.999, 1.0, 1.0],
        "s": ["19.99", "1", "19.999", "1"],
        "d": pa.array([1_500_000, 1_500_000, 1_500_000, 1_500_001], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    writer = opened(PostgresqlTarget(dsn=postgresql.dsn, table="t", key=("id",)))
    assert writer.refusals("q", 0, table) == {
        1: "the column n is a number that does not fit numeric(12,2) without rounding",
        2: "the column s is a number that does not fit numeric(12,2) without rounding",
        3: "the column d is a time with more than 3 digits of a second",
    }
    assert added(writer, "q", 0, table.take([0])) == 1
    assert postgresql.execute("SELECT n, s, extract(epoch FROM d) FROM t") == [
        (Decimal("20.25"), Decimal("19.99"), Decimal("1.500000"))
    ]
    writer.close()


def test_a_key_that_its_column_cannot_have_is_known_to_nobody(postgresql: Place) -> None:
    """It is refused later, as a row. To look for it must not end the job."""
    postgresql.execute(
        "CREATE TABLE orders (id varchar(3) PRIMARY KEY, amount bigint)",
        "CREATE TABLE others (id uuid PRIMARY KEY, amount bigint)",
    )
    one = "00000000-0000-0000-0000-00000000000a"
    for table, key in (("orders", "a"), ("others", one)):
        writer = opened(PostgresqlTarget(dsn=postgresql.dsn, table=table, key=("id",)))
        assert added(writer, "q", 0, rows(key)) == 1
        assert known(writer, "p", "too long", key, "nul\0", "b") == [key]
        assert known(writer, "p", "too long") == []
        writer.close()
