"""Tables of facts are compiled, and a table with a gap or an overlap is refused."""

import pytest

from gantrymq.errors import InvariantViolated
from gantrymq.transactions.decision_table import ANY, DecisionTable

DOMAINS = {"colour": ("red", "green", "blue"), "wet": (False, True)}


def test_rows_match_values_sets_and_anything() -> None:
    table = DecisionTable(
        DOMAINS, [(("red", ANY), 1), ((frozenset({"green", "blue"}), True), 2), ((ANY_BUT_RED, False), 3)]
    )
    assert [table[facts] for facts in table.combinations()] == [1, 1, 3, 2, 3, 2]


ANY_BUT_RED = frozenset({"green", "blue"})


def test_a_gap_names_the_facts_that_no_row_matches() -> None:
    with pytest.raises(InvariantViolated, match="0 rows match colour='blue', wet=True"):
        DecisionTable(DOMAINS, [((frozenset({"red", "green"}), ANY), 1), (("blue", False), 2)])


def test_an_overlap_is_refused() -> None:
    with pytest.raises(InvariantViolated, match="2 rows match colour='red', wet=True"):
        DecisionTable(DOMAINS, [((ANY, ANY), 1), (("red", True), 2)])


def test_anything_is_shown_by_its_name() -> None:
    assert repr(ANY) == "ANY"
