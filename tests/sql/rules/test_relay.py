"""The database transaction in which rows leave the outbox, and what is known of the table before."""

from __future__ import annotations

import pytest

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rows.failures import Failure
from gantrymq.sql.rows.outbox_statements import OutboxStatements
from gantrymq.sql.rules.claim import ATTEMPTS, Failed
from gantrymq.sql.rules.outcomes import Outcomes
from gantrymq.sql.rules.relay import delivery, find_order

DIALECT = Dialect(DatabaseKind.POSTGRESQL, "qmark")
OUTCOMES, OUTBOX = Outcomes(DIALECT, "g"), OutboxStatements(DIALECT, ordered=True)


def test_rows_without_a_key_are_deleted_and_the_outcome_is_inserted() -> None:
    one, two = delivery(OUTCOMES, OUTBOX, [(["r-1", "r-2"], "t")], {}, 700)
    assert one == (OUTBOX.delete(2), ("r-1", "r-2"), 2)
    assert two == (*OUTCOMES.insert("t"), 1)


def test_a_row_with_a_key_stays_and_says_what_it_has_become() -> None:
    parts = [(["r-1"], "t"), (["r-2"], "u"), (["r-3"], "v")]
    first, *others = delivery(OUTCOMES, OUTBOX, parts, {"r-2": "half"}, 700)
    assert first == (OUTBOX.become, ("half", 700, "r-2"), 1), "one row must change, or all is rolled back"
    assert others == [
        (OUTBOX.delete(2), ("r-1", "r-3"), 2), (*OUTCOMES.insert("t"), 1), (*OUTCOMES.insert_more(["u", "v"]), 2),
    ]  # fmt: skip


def test_where_all_rows_have_keys_none_is_deleted() -> None:
    statements = delivery(OUTCOMES, OUTBOX, [(["r-1"], "t")], {"r-1": "half"}, 700)
    assert [text for text, _, _ in statements] == [OUTBOX.become, OUTCOMES.insert("t")[0]]


@pytest.mark.parametrize(("rows", "ordered"), [([("half",)], True), ([], False)])
def test_whether_the_table_has_what_keys_need(rows: list[tuple[str]], ordered: bool) -> None:
    asking = find_order(DatabaseKind.SQLITE, "gantrymq_outbox")
    next(asking)
    with pytest.raises(StopIteration) as end:
        asking.send(rows)
    assert end.value.value is ordered


def test_a_look_that_fails_says_nothing_of_the_table() -> None:
    """It was read as "no columns" once, and rows left out of order."""
    asking, failed = find_order(DatabaseKind.SQLITE, "gantrymq_outbox"), Failed(Failure.DISCONNECTED, "it is gone")
    next(asking)
    for _ in range(ATTEMPTS - 1):
        asking.send(failed)
    with pytest.raises(ConfigError, match="it is gone"):
        asking.send(failed)
