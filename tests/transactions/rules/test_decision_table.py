"""Tables of facts are compiled, and a table with a gap or an overlap is refused."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import InvariantViolated
from gantrymq.transactions.rules.decision_table import ANY, DecisionTable

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


def wanted(values: tuple[object, ...]) -> st.SearchStrategy[object]:
    return st.one_of(st.just(ANY), st.sampled_from(values), st.frozensets(st.sampled_from(values)))


@pytest.mark.slow
@given(st.lists(st.tuples(st.tuples(wanted((*DOMAINS["colour"], "mauve")), wanted(DOMAINS["wet"])), st.integers())))
def test_it_is_compiled_to_what_its_rows_say_of_each_combination(rows: list[tuple[tuple[object, ...], int]]) -> None:
    def fits(want: object, value: object) -> bool:
        return want is ANY or (value in want if isinstance(want, frozenset) else want == value)

    said = {
        (colour, wet): [result for (one, other), result in rows if fits(one, colour) and fits(other, wet)]
        for colour, wet in product(*DOMAINS.values())
    }
    if all(len(results) == 1 for results in said.values()):
        assert DecisionTable(DOMAINS, rows).results == {facts: result for facts, (result,) in said.items()}
    else:
        with pytest.raises(InvariantViolated):
            DecisionTable(DOMAINS, rows)
