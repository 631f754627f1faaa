"""Statements as each driver wants them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import PARAMETER_STYLES, DatabaseKind, dialect_of
from gantrymq.sql.rows.tables import InboxStatements, OutcomeStatements


@pytest.mark.parametrize(
    ("style", "written"),
    [
        ("qmark", "INSERT INTO t VALUES (?, ?)"),
        ("format", "INSERT INTO t VALUES (%s, %s)"),
        ("pyformat", "INSERT INTO t VALUES (%s, %s)"),
        ("numeric_dollar", "INSERT INTO t VALUES ($1, $2)"),
        ("numeric", "INSERT INTO t VALUES (:1, :2)"),
    ],
)
def test_each_style(style: str, written: str) -> None:
    assert dialect_of("postgresql", style).written("INSERT INTO t VALUES (?, ?)") == written


@given(st.sampled_from(sorted(PARAMETER_STYLES)), st.lists(st.text("abc ,()"), min_size=1, max_size=12))
def test_nothing_but_the_parameters_changes(style: str, words: list[str]) -> None:
    written = dialect_of("sqlite", style).written("?".join(words))
    for number in range(len(words) - 1, 0, -1):
        for mark in (f"${number}", f":{number}"):
            written = written.replace(mark, "?")
    assert written.replace("%s", "?") == "?".join(words)


@pytest.mark.parametrize("kind", DatabaseKind)
@pytest.mark.parametrize("style", ["format", "numeric_dollar"])
def test_no_statement_has_a_percent_sign_or_question_mark_of_its_own(kind: DatabaseKind, style: str) -> None:
    dialect = dialect_of(kind.value, style)
    outcomes, inbox = OutcomeStatements(dialect), InboxStatements(dialect)
    for statements in (outcomes, inbox, outcomes.cleaning, inbox.cleaning):
        values = [getattr(statements, name) for name in dir(statements) if not name.startswith("__")]
        texts = [value for value in values if isinstance(value, str)]
        assert texts
        for text in texts:
            assert "?" not in text and "%" not in text.replace("%s", ""), text


def test_what_is_not_known_is_refused_with_what_is() -> None:
    with pytest.raises(
        ConfigError, match=r"'oracle' is not supported; supported are postgresql, mysql, mariadb, sqlite"
    ):
        dialect_of("oracle", "qmark")
    with pytest.raises(ConfigError, match="'named' of the driver is not supported"):
        dialect_of("sqlite", "named")
