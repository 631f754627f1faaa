"""Listeners of one role, in lists of what outlives it: they are taken out when the role ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

Lists: TypeAlias = Callable[[], Sequence[list[Any]]]
"""The lists there are now."""


class Listeners:
    """Everything that was put into the lists since this was made."""

    def __init__(self, lists: Lists) -> None:
        self._lists: Final = lists
        self._before: Final = {id(one): list(one) for one in lists()}

    def remove(self) -> None:
        """Leave only those that were there before."""
        for one in self._lists():
            kept = [id(listener) for listener in self._before.get(id(one), ())]
            one[:] = [listener for listener in one if id(listener) in kept]
