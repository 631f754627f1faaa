"""What an operation says later, for the call that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

from gantrymq.broker.refusal import Refused

T = TypeVar("T")


async def all_of(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Await several pieces of work of one call. A single one, as nearly each call has, gets no task: it would begin in
    the next turn of the loop, and store its message there without those of this turn."""
    if len(works) == 1:
        await works[0]
    else:
        await asyncio.gather(*works)


class Outcome(Generic[T]):
    """Make it as ``outcome: Outcome[None] = Outcome()``: a call of ``Outcome[None]`` costs three times that.

    A client may give up its call at any time; whoever tells the outcome then, tells nobody, and is not disturbed."""

    def __init__(self) -> None:
        self._told: asyncio.Future[T | Refused] = asyncio.get_running_loop().create_future()

    def tell(self, outcome: T | Refused) -> None:
        if not self._told.done():
            self._told.set_result(outcome)

    @property
    def told(self) -> T | Refused | None:
        """What was told to a call that still waited; None: nothing."""
        return self._told.result() if self._told.done() and not self._told.cancelled() else None

    @property
    def given_up(self) -> bool:
        return self._told.cancelled()

    async def get(self) -> T:
        """Raises Refused."""
        outcome = await self._told
        if isinstance(outcome, Refused):
            raise outcome
        return outcome
