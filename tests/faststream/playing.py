"""What the tests of this folder share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from gantrymq.faststream import GantryBroker

PATIENCE_S = 60.0
"""How long something may take on a busy machine."""


def quiet(**options: Any) -> GantryBroker:
    """A broker that logs nothing."""
    return GantryBroker(logger=None, **options)


def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(2 * PATIENCE_S):
            await test()

    asyncio.run(limited())


async def soon(waiting: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(waiting, PATIENCE_S)
