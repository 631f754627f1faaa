"""The explanations of a broker's transactions, loaded when the first one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.broker.transactions.explanations import TransactionExplanations


class Explaining:
    """Makes them once. Nobody may ever ask, and loading them takes 11 ms of a start."""

    def __init__(self, make: Callable[[], TransactionExplanations]) -> None:
        self._make = make
        self._made: TransactionExplanations | None = None

    @property
    def explanations(self) -> TransactionExplanations:
        """All that can be asked."""
        if self._made is None:
            self._made = self._make()
        return self._made
