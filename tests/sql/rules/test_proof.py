"""What the text of a statement says about the transaction that it is in."""

from __future__ import annotations

import pytest

from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rules import proof


@pytest.mark.parametrize(
    ("statement", "on_mysql", "elsewhere"),
    [
        ("COMMIT", True, True),
        ("  commit and chain", True, True),
        ("COMMIT PREPARED 'x'", False, False),
        ("BEGIN", True, False),
        ("BEGIN NOT ATOMIC SELECT 1; END", False, False),
        ("start  transaction", True, False),
        ("END", False, True),
        ("ANALYZE TABLE orders", True, False),
        ("analyze no_write_to_binlog table orders", True, False),
        ("OPTIMIZE TABLE orders", True, False),
        ("CHECK TABLE orders", True, False),
        ("REPAIR TABLES orders", True, False),
        ("ANALYZE SELECT * FROM orders", False, False),
        ("ROLLBACK", False, False),
        ("SELECT 'COMMIT'", False, False),
        ("INSERT INTO checks VALUES (1)", False, False),
    ],
)
def test_a_statement_that_commits_is_known_by_its_text(statement: str, on_mysql: bool, elsewhere: bool) -> None:
    for kind in DatabaseKind:
        assert proof.commits(kind, statement) is (on_mysql if kind.facts.commits_implicitly else elsewhere)
