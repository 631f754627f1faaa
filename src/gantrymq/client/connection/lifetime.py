"""The base of all asyncio clients: an endpoint that is opened by ``start`` and closed by ``close``."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn, Self

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.runtimes import refuse_copy


class Lifetime:
    """A client that is open within an ``async with`` block.

    It belongs to the event loop and process in which it was started: after a fork the child's calls raise
    UsedAfterFork.
    """

    _endpoint: Endpoint

    def __reduce__(self) -> NoReturn:
        refuse_copy(self)

    async def start(self) -> None:
        """Start the client. It needs no network for this; the first call connects."""
        self._endpoint.start()

    async def close(self) -> None:
        """Close the client; running calls raise Closed. May be called again. A cancelled ``close`` continues in the
        background."""
        await self._endpoint.close()

    async def drop(self) -> None:
        """Close the connections without unregistering, when the process ends and the program has not called
        ``close``."""
        await self._endpoint.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()  # ``__aexit__`` is not called when ``__aenter__`` fails
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """How brokers name this client; empty before the first connection."""
        return self._endpoint.client_id
