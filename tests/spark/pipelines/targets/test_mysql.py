"""The target ``mysql`` on a real MariaDB: what it writes, what it refuses, and a connection that is lost."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.pipelines.describe.mysql_address import MysqlAddress
from gantrymq.spark.pipelines.job import MysqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.port import Columns, RowRefused, Writer
from gantrymq.spark.pipelines.targets.staging import TargetAway
from gantrymq.spark.pipelines.targets.writers import change_of, open_writer
from tests.spark.pipelines.staged import added
from tests.spark.pipelines.targets.test_targets import rows
from tests.sql.databases import Place, database_server, mariadb

__all__ = ["database_server", "mariadb"]

ID = "id varchar(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
TABLE = f"CREATE TABLE orders ({ID} PRIMARY KEY, amount bigint)"


def url_of(place: Place) -> str:
    return f"mysql://{place.user}@127.0.0.1:{place.port}/{place.name}"


def target_of(place: Place, table: str = "orders", key: tuple[str, ...] = ("id",)) -> MysqlTarget:
    return MysqlTarget(url=url_of(place), table=table, key=key)


def columns_of(like: pa.Table) -> Columns:
    return Columns(tuple(like.column_names), "", like.schema)


def opened(target: Any, like: pa.Table | None = None, databases: Databases | None = None) -> Writer:
    columns = columns_of(rows() if like is None else like)
    return open_writer(target, target.table.rpartition(".")[2], columns, {}, OsDisk(), databases or Databases())


def known(writer: Writer, query: str, *ids: str) -> list[str]:
    found = writer.known(query, rows(*ids).select(["id"]))
    return [] if found is None else sorted(found["id"].to_pylist())


def test_rows_are_updated_by_their_key(mariadb: Place) -> None:
    mariadb.execute(f"CREATE TABLE orders (no int AUTO_INCREMENT PRIMARY KEY, {ID} UNIQUE, amount bigint, note text)")
    target = target_of(mariadb, f"{mariadb.name}.orders")
    writer = opened(target)
    assert (writer.rows(), writer.others("q")) == (0, {})
    assert added(writer, "q", 0, pa.concat_tables([rows("a", "b", "A", "a "), rows("a", amount=5)])) == 5
    assert added(writer, "q", 1, rows()) == 0
    writer.close()
    writer = opened(target)
    assert writer.has("q", 0) and not writer.has("q", 1) and not writer.has("p", 0)
    assert added(writer, "q", 0, rows("x")) == 0
    assert added(writer, "p", 0, rows("b", amount=7)) == 1
    assert writer.rows() == 4
    assert (writer.others("q"), writer.others("p")) == ({"p": 0}, {"q": 0})
    assert known(writer, "p", "a", "x", "A", "too long" * 10) == ["A", "a"]
    writer.close()
    found = mariadb.execute("SELECT id, amount FROM orders ORDER BY no")
    assert found == [("a", 5), ("b", 7), ("A", 1), ("a ", 1)]


def test_a_task_that_ran_twice_is_in_the_table_once(mariadb: Place) -> None:
    """And rows of tasks come in the order of their numbers. The table that they are in meanwhile goes with the run."""
    mariadb.execute(TABLE)
    writer = opened(target_of(mariadb))
    stage = writer.stage("q", 0)
    lost = list(stage.write(rows("a", "x", amount=9).to_batches(), 1))
    staged = [*stage.write(rows("a", amount=2).to_batches(), 1), *stage.write(rows("a", "b").to_batches(), 0)]
    assert len(lost) == 1 and writer.accepts("q", 0, staged)
    assert writer.commit("q", 0, staged) == 3
    assert mariadb.execute("SELECT id, amount FROM orders ORDER BY id") == [("a", 2), ("b", 1)]
    left = "SHOW TABLES LIKE 'gantry_staged%'"
    assert len(mariadb.execute(left)) == 1
    writer.close()
    assert mariadb.execute(left) == []


def test_a_connection_that_the_server_has_ended_is_opened_again(mariadb: Place) -> None:
    """Before each kind of question, and in the transaction of a batch. The caller repeats its batch."""
    mariadb.execute(TABLE)
    writer = opened(target_of(mariadb))
    patience = Patience(5_000, SystemClock(), SystemRng())
    questions: tuple[tuple[Callable[[], object], object], ...] = (
        (lambda: writer.has("q", 0), False),
        (lambda: added(writer, "q", 0, rows("a", "b")), 2),
        (lambda: writer.others("p"), {"q": 0}),
        (lambda: known(writer, "p", "a", "x"), ["a"]),
        (writer.rows, 2),
    )
    for ask, expected in questions:
        mariadb.kill_connections()
        assert patience.call("asking", ask) == expected
    staged = list(writer.stage("q", 1).write(rows("c").to_batches(), 0))
    assert writer.accepts("q", 1, staged)
    mariadb.kill_connections()
    with pytest.raises(TargetAway):
        writer.commit("q", 1, staged)
    assert not patience.call("asking", lambda: writer.has("q", 1))
    assert writer.commit("q", 1, staged) == 1
    assert writer.rows() == 3
    writer.close()


def test_a_batch_that_is_refused_leaves_nothing(mariadb: Place) -> None:
    mariadb.execute(f"CREATE TABLE orders ({ID} PRIMARY KEY, amount bigint CHECK (amount < 5))")
    writer = opened(target_of(mariadb))
    refused = pa.concat_tables([rows("a"), rows("b", amount=9)])
    staged = list(writer.stage("q", 0).write(refused.to_batches(), 0))
    assert not writer.accepts("q", 0, staged)
    with pytest.raises(RowRefused, match=r"targets\.orders: a row of batch 0 is refused"):
        writer.commit("q", 0, staged)
    assert (writer.rows(), writer.has("q", 0)) == (0, False)
    assert added(writer, "q", 0, rows("a")) == 1
    writer.close()


def test_every_row_that_cannot_be_as_it_is_is_named(mariadb: Place) -> None:
    """By the types of the columns, for all of them at once; and what only the server knows, by halves."""
    mariadb.execute(
        f"CREATE TABLE orders ({ID} PRIMARY KEY, s varchar(3), c char(3), b binary(2), i smallint unsigned, "
        "n decimal(5,2), m decimal(5,2) unsigned, f double, at datetime(3), day date, "
        "old varchar(9) CHARACTER SET latin1, e enum('x', 'y'), q text NOT NULL DEFAULT '')"
    )
    good = {
        "s": "ab ", "c": "abc", "b": b"\0\1", "i": 65535, "n": Decimal("1.500"), "m": Decimal("1"), "f": 0.1,
        "at": 1_500_000, "day": 0, "old": "ä", "e": "x", "q": "",
    }  # fmt: skip
    bad: dict[str, list[tuple[Any, str]]] = {
        "s": [("abcd", "is too long for 3 characters"), ("abc ", "is too long for 3 characters")],
        "c": [("a ", "ends with a space, which MySQL takes away in char")],
        "b": [(b"\1", "has fewer than 2 bytes, and MySQL would add some"), (b"123", "is too long for 2 bytes")],
        "i": [(one, "is a number that does not fit unsigned smallint") for one in (-1, 65536)],
        "n": [(Decimal("1.001"), "is a number that does not fit decimal(5,2) without rounding"),
              (Decimal("1000"), "is a number that does not fit decimal(5,2) without rounding")],
        "m": [(Decimal("-1"), "is below 0")],
        "f": [(float("nan"), "is not a finite number, which MySQL cannot have")],
        "at": [(1_500_001, "is a time with more than 3 digits of a second"),
               (1 << 60, "is not within the years 1 to 9999")],
        "day": [(1 << 24, "is not within the years 1 to 9999")],
        "q": [(None, "is null, and the table says NOT NULL")],
    }  # fmt: skip
    kinds = {
        "n": pa.decimal128(10, 3), "m": pa.decimal128(10, 3), "at": pa.timestamp("us", "UTC"), "day": pa.date32(),
        "i": pa.int32(), "b": pa.binary(), "f": pa.float64(),
    }  # fmt: skip
    cases = [(name, *case) for name, some in bad.items() for case in some]
    lines = [good, *({**good, name: value} for name, value, _ in cases)]

    def table(some: list[dict[str, Any]]) -> pa.Table:
        columns = {"id": pa.array([str(at) for at in range(len(some))], pa.string())}
        for name in good:
            columns[name] = pa.array([one[name] for one in some], kinds.get(name, pa.string()))
        return pa.table(columns)

    writer = opened(target_of(mariadb), table(lines))
    expected = {at: f"the column {name} {reason}" for at, (name, _, reason) in enumerate(cases, 1)}
    assert writer.refusals("q", 0, table(lines)) == expected
    only_the_server = table([good, {**good, "old": "π"}, {**good, "e": "z"}, good])
    said = writer.refusals("q", 0, only_the_server)
    assert {at: one.partition(" row: ")[0] for at, one in said.items()} == dict.fromkeys([1, 2], "MySQL refuses the")
    staged = list(writer.stage("q", 0).write(only_the_server.to_batches(), 0))
    assert not writer.accepts("q", 0, staged)
    assert writer.rows() == 0
    assert added(writer, "q", 0, table([good])) == 1
    values = mariadb.execute(f"SELECT {', '.join(good)} FROM orders")[0]
    assert [str(one) for one in values] == [
        "ab ", "abc", "b'\\x00\\x01'", "65535", "1.50", "1.00", "0.1", "1970-01-01 00:00:01.500000", "1970-01-01", "ä",
        "x", "",
    ]  # fmt: skip
    writer.close()


def test_targets_in_one_database_share_the_transaction(mariadb: Place) -> None:
    """A row can refer to a row of another target of the same batch, and both are committed at once."""
    mariadb.execute(
        f"{TABLE} ENGINE=InnoDB",
        f"CREATE TABLE items ({ID} PRIMARY KEY, amount bigint, FOREIGN KEY (id) REFERENCES orders (id)) ENGINE=InnoDB",
    )
    databases = Databases()
    orders, items = (opened(target_of(mariadb, table), databases=databases) for table in ("orders", "items"))
    first = list(orders.stage("q", 0).write(rows("a").to_batches(), 0))
    assert orders.accepts("q", 0, first)
    second = list(items.stage("q", 0).write(rows("a", "b").to_batches(), 0))
    assert not items.accepts("q", 0, second)
    assert list(items.refusals("q", 0, rows("a", "b"))) == [1]
    databases.undo_all()  # all are asked again, without the message that was refused
    assert orders.accepts("q", 0, first)
    second = list(items.stage("q", 0).write(rows("a").to_batches(), 0))
    assert items.accepts("q", 0, second)
    assert mariadb.execute("SELECT id FROM orders") == []
    assert orders.commit("q", 0, first) == 1
    assert mariadb.execute("SELECT id FROM items") == [("a",)]
    assert items.has("q", 0) and orders.has("q", 0)
    assert items.commit("q", 0, second) == 1
    assert orders.accepts("q", 1, list(orders.stage("q", 1).write(rows("c").to_batches(), 0)))
    items.close()
    assert not orders.has("q", 1), "the run ends in the middle of a batch"
    orders.close()
    assert mariadb.execute("SELECT id FROM orders") == [("a",)]


@pytest.mark.parametrize(
    ("columns", "key", "said"),
    [
        ("id varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, amount bigint", ("id",),
         "the column id of the key compares texts by utf8mb4_general_ci"),
        ("id varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, amount bigint", ("id",),
         "the column id of the key compares texts by utf8mb4_bin"),
        ("id varbinary(9), amount bigint", ("id",), "the table has no unique index of exactly id"),
        ("id varbinary(9) PRIMARY KEY, amount bigint UNIQUE", ("id",), "the table has another unique index, amount"),
        ("id varbinary(9), amount bigint, UNIQUE (id(3))", ("id",), "the table has no unique index of exactly id"),
        ("id varbinary(9) PRIMARY KEY", ("id",), "the table has no column amount; add it, or leave it out"),
        ("id varbinary(9) PRIMARY KEY, amount text", ("id",), "the column amount is text in the table and bigint in"),
    ],
)  # fmt: skip
def test_a_table_in_which_rows_could_change_each_other_is_refused(
    columns: str, key: tuple[str, ...], said: str, mariadb: Place
) -> None:
    mariadb.execute(f"CREATE TABLE orders ({columns})")
    target = target_of(mariadb, key=key)
    with pytest.raises(ConfigError, match=rf"targets\.orders: {said}"):
        opened(target)
    with pytest.raises(ConfigError, match=rf"targets\.orders: {said}"):
        change_of("orders", target, columns_of(rows()))
    assert mariadb.execute("SHOW TABLES") == [("orders",)], "a check makes nothing"


def test_a_table_that_is_not_there(mariadb: Place) -> None:
    with pytest.raises(ConfigError, match=r"targets.orders: MySQL refuses: .*orders' doesn't exist"):
        opened(target_of(mariadb))
    nowhere = MysqlTarget(url="mysql://me@127.0.0.1:1/x", table="orders", key=("id",))
    with pytest.raises(ConfigError, match=r"targets.orders: MySQL refuses: .*127\.0\.0\.1"):
        opened(nowhere)
    assert "cannot be looked at now" in change_of("orders", nowhere, columns_of(rows()))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "postgresql://me@localhost/shop",
            "this is not an address of a database; write mysql://USER@localhost:3306/DATABASE",
        ),
        ("mysql://localhost/shop", "this is not an address of a database"),
        ("mysql://me@localhost", "this is not an address of a database"),
        ("mysql://me@localhost:x/shop", "this is not an address"),
        ("mysql://me@localhost/shop?tls=1", "the address has the unknown option tls; there is ssl_ca"),
    ],
)
def test_an_address_that_is_none(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        MysqlAddress.of(url)
    assert said in str(raised.value)


def test_an_address() -> None:
    whole = MysqlAddress.of("mysql://me:p%40ss@localhost:3307/shop?ssl_ca=/etc/ca.pem")
    assert whole == MysqlAddress("localhost", 3307, "me", "p@ss", "shop", "/etc/ca.pem")
    assert MysqlAddress.of("mysql://me@localhost/shop") == MysqlAddress("localhost", 3306, "me", None, "shop", None)
