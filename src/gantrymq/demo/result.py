"""The result of a run of the demo: numbers for ``--json`` and for the table at the end."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from gantrymq.demo.layout import TOPIC, Layout
from gantrymq.runtime.disk import OsDisk, write_durably


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """The number of rows of each table."""

    shipping: int
    points: int
    cart: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing orders, topic and tables. Each number counts different orders."""

    by: str
    """What compared them: ``spark reconcile``, or ``pull consumer`` without Spark."""
    missing: int
    doubled: int
    phantom: int
    wrong: int
    delivered_twice: int
    """Orders that are in the topic more than once."""
    named: dict[str, list[str]]
    """The order ids behind the numbers above, by kind."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of ``--json``."""

    ok: bool
    orders: int
    seed: int
    paid: int
    rolled_back: int
    decided_by_check_back: int
    """Transactions that the broker checked with the order service, and that the answer committed or rolled back."""
    open: int
    """Transactions that are not decided in the end."""
    delivered: int
    """The number of messages in the topic."""
    rows: Rows | None
    """None without Spark."""
    missing: int
    doubled: int
    phantom: int
    wrong: int
    delivered_twice: int
    compared_by: str
    named: dict[str, list[str]]
    failed_sends: int
    """Sends that the order service repeated with a new transaction, most of them while the broker was down."""
    broker_kills: int
    producer_kills: int
    stages_seconds: dict[str, float]
    java: str | None
    dir: str
    name_servers: str

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def write_result(result: Result, path: Path) -> None:
    write_durably(OsDisk(), str(path.resolve()), result.to_json())


def next_commands(layout: Layout, name_servers: str, gantry: str, python: str) -> list[tuple[str, str]]:
    """Commands that the user may want to run next: (purpose, command)."""
    database = shlex.quote(str(layout.orders_db))
    query = "SELECT status, count(*) FROM orders GROUP BY status"
    code = f"import sqlite3; print(sqlite3.connect({str(layout.orders_db)!r}).execute({query!r}).fetchall())"
    reconcile = f"{gantry} pipeline reconcile --orders-db {database}"
    return [
        ("orders by status", f"{python} -c {shlex.quote(code)}"),
        ("start the server on this store again", f"{gantry} server -c {shlex.quote(str(layout.broker_conf))}"),
        (
            "compare again, with that server running",
            f"{reconcile} --tables {shlex.quote(str(layout.tables))} --name-servers {name_servers} --topic {TOPIC}",
        ),
    ]
