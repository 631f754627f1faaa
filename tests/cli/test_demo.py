"""What ``gantry demo`` shows; what it does is tested in ``tests/demo``."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gantrymq.cli.demo import TerminalShow, result_table
from gantrymq.demo.order_database import Counts
from gantrymq.demo.result import Rows
from gantrymq.demo.script import Snapshot
from tests.demo.test_result import a_result

SNAPSHOT = Snapshot(Counts(5, 1), 2, 5, Rows(shipping=4, points=3, cart=5))


def shown(**changes: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(result_table(a_result(**changes)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_every_number_a_person_looks_for() -> None:
    text = shown()
    for row in (
        "orders paid", "rolled back", "decided by check-back", "still open", "delivered to the topic",
        "rows in table shipping",
        "rows in table points", "rows in table cart", "missing", "doubled", "phantom", "broker kills survived",
        "producer kills survived", "seconds: server",
    ):  # fmt: skip
        assert row in text


def test_without_spark_there_are_no_rows() -> None:
    assert "rows in table" not in shown(rows=None)


@pytest.mark.parametrize("kind", ["open", "missing", "doubled", "phantom", "wrong"])
def test_what_is_wrong_stands_out(kind: str) -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(result_table(a_result(**{kind: 7})))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[1;31m7\x1b[0m" in console.file.getvalue()


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    console = Console(file=io.StringIO(), width=100)
    with TerminalShow(console, 10, 4, spark=True) as show:
        show.stage("orders", "paying 10 orders")
        show._last_time -= 10
        show.progress(SNAPSHOT)
        show._last_time -= 10
        show.progress(SNAPSHOT)  # nothing new: no line
        show.event("killed the broker")
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.count("5 paid, 1 rolled back, 2 decided by check-back, 3 in every table") == 1
    assert "paying 10 orders" in text and "killed the broker" in text


def test_on_a_terminal_there_are_bars() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with TerminalShow(console, 10, 4, spark=True) as show:
        show.progress(SNAPSHOT)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "6/10" in text and "2/4" in text and "rows in every table" in text
