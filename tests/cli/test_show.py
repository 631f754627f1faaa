"""Output is safe for terminals, complete, and can be parsed."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.cli import show


@given(st.text())
def test_safe_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    assert show.safe(text).isprintable()


@given(st.text().filter(str.isprintable))
def test_what_is_printable_stays(text: str) -> None:
    assert show.safe(text) == text


@given(st.binary(max_size=300), st.integers(0, 100))
def test_bodies_are_safe_and_bounded(body: bytes, limit: int) -> None:
    shown = show.body_text(body, limit)
    assert all(line.isprintable() for line in shown.split("\n"))


@pytest.mark.parametrize(
    ("body", "limit", "shown"),
    [
        (b"hello", 10, "hello"),
        (b"one\ntwo", 10, "one\ntwo"),
        ("gr\u00fc\u00dfe".encode(), 3, "gr\u00fc\n... and 2 characters more"),
        (b"\xff\x00\x01", 10, "ff 00 01"),
        (b"\xff\x00\x01", 2, "ff 00\n... and 1 bytes more"),
        (b"\x1b[31mred", 20, "\\x1b[31mred"),
        (b"", 10, ""),
    ],
)
def test_bodies(body: bytes, limit: int, shown: str) -> None:
    assert show.body_text(body, limit) == shown


@given(st.binary(max_size=100))
def test_bodies_come_back_from_json(body: bytes) -> None:
    fields = json.loads(json.dumps(show.body_fields(body)))
    if fields["body_encoding"] == "utf-8":
        assert fields["body"].encode() == body
    else:
        assert base64.b64decode(fields["body"]) == body


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:01+00:00", 1_000),
        ("2026-01-31T12:00:00.250Z", 1_769_860_800_250),
        ("1769860800250", 1_769_860_800_250),
        ("soon", None),
        ("12", None),
        ("", None),
    ],
)
def test_times(text: str, time_ms: int | None) -> None:
    assert show.parse_time(text) == time_ms


@given(st.integers(1, 4_000_000_000_000))
def test_a_time_comes_back(time_ms: int) -> None:
    shown = show.when(time_ms)
    assert shown is not None
    assert show.parse_time(shown) == time_ms


@pytest.mark.parametrize("time_ms", [None, 0, -1])
def test_no_time(time_ms: int | None) -> None:
    assert show.when(time_ms) is None


@pytest.mark.parametrize(
    ("age_ms", "shown"),
    [(1_500, "1.5 s"), (61_000, "1 min 1 s"), (3_660_000, "1 h 1 min"), (90_000_000, "1 d 1 h")],
)
def test_ages(age_ms: int, shown: str) -> None:
    assert show.ago(age_ms) == shown


def test_tables_of_a_pipe_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 400
    show.table([{"a": long, "b": 1, "c": None, "d": True}], {"a": "A", "b": "B", "c": "C", "d": "D"}, "none")
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if long in line]
    assert line.split() == [long, "1", "-", "yes"]
    show.table([], {"a": "A"}, "nothing here")
    assert capsys.readouterr().out == "nothing here\n"
