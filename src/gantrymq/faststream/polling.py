"""A subscriber without a handler: the program asks for one message after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from gantrymq.client.lite_pull_consumer import LitePullConsumer
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import MessageView

Subscription = tuple[str, str, str | None]
"""Topic, tags, SQL expression."""


class Poller:
    """A lite pull consumer that gives out single messages."""

    def __init__(
        self,
        group: str,
        name_servers: str | Iterable[str],
        settings: Mapping[str, Any],
        from_where: ConsumeFromWhere,
        subscription: Subscription,
    ) -> None:
        topic, tags, sql = subscription
        self._consumer = LitePullConsumer(
            group, name_servers=name_servers, from_where=from_where, poll_batch_size=1, **settings
        ).subscribe(topic, tags, sql=sql)
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        await self._consumer.start()

    async def close(self) -> None:
        """What was given out counts as consumed, if its broker can be told. Raises the errors of the commit."""
        try:
            await self._consumer.commit()
        finally:
            await self._consumer.close()

    async def one(self, seconds: float) -> MessageView | None:
        async with self._turn:
            found = await self._consumer.poll(int(seconds * 1000))
        return found[0] if found else None
