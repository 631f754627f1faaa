"""Asks several peers of which each can give the answer, as the name servers of a cluster can."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gantrymq.errors import GantryError, TimedOut
from gantrymq.protocol.command import Command, Header
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.first_success import first_success

PATIENCE_S: Final = 0.3
"""How long one peer is waited for before the next one is asked as well. An answer of a name server takes milliseconds,
and the first send of a process must stay far below its time limit (3 s) when two name servers are silent."""


class Several:
    """The peers, in the order in which they are asked. The one that answered last is asked first.

    A peer that is silent (it accepts connections and never answers, or its machine drops every packet) costs
    ``PATIENCE_S`` once, and is asked again only when the others fail.
    """

    def __init__(self, remoting: RemotingClient, clock: Clock, addresses: Sequence[str]) -> None:
        self._remoting = remoting
        self._clock = clock
        self._order = list(addresses)

    @property
    def addresses(self) -> list[str]:
        return list(self._order)

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int) -> Command:
        """The first answer, whatever its code. Each peer has ``timeout_ms``. Raises what the last one raised when none
        answers."""
        order = list(self._order)
        if len(order) == 1:
            return await self._ask(order[0], code, header, body, timeout_ms)
        number, answer = await first_success(
            self._clock,
            [partial(self._ask, address, code, header, body, timeout_ms) for address in order],
            PATIENCE_S,
            final=lambda error: not (isinstance(error, GantryError) and error.retryable),
        )
        if number:
            best = order[number]
            self._order = [best, *(address for address in self._order if address != best)]
        return answer

    async def _ask(self, address: str, code: int, header: Header | None, body: bytes, timeout_ms: int) -> Command:
        try:
            return await self._remoting.call(address, code, header, body, timeout_ms=timeout_ms)
        except TimedOut:
            # The machine may be gone without a word, and its name may belong to another one by now.
            self._remoting.disconnect(address)
            raise
