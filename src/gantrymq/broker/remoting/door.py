"""The remoting door: clients over sockets that speak RocketMQ's remoting protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_calls import ClientCalls
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejection
from gantrymq.broker.remoting.unsupported import refused_codes
from gantrymq.protocol.command import Command
from gantrymq.remoting.latency import RequestLatency
from gantrymq.remoting.server import Handler, RemotingServer
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.network import Network


class RemotingDoor:
    """Listens, and hands every request to its handler."""

    def __init__(
        self, network: Network, clock: Clock, closed: Callable[[ClientSession], None], client_limits: ClientLimits
    ) -> None:
        """``closed``: called once for every connection that ended. ``client_limits``: the limits of clients."""
        self._calls = ClientCalls(clock)
        self.handlers: dict[int, Handler] = {}
        """What is answered, by request code; empty until ``serve``."""
        self._server = RemotingServer(
            network,
            clock,
            self.handlers,
            closed=closed,
            responses=self._calls.answer,
            refusals=dict(refused_codes()),
            rejection=rejection,
            new_session=partial(ClientSession, self._calls),
            client_limits=client_limits,
        )

    @property
    def latency(self) -> RequestLatency:
        """How long requests took."""
        return self._server.latency

    def last_request(self) -> str:
        """What was executed last, and for whom."""
        return self._server.last_request_text()

    async def listen(self, host: str, port: int) -> str:
        """The address. May be called for several ports. Raises Unreachable when the port is in use."""
        return await self._server.start(host, port)

    def serve(self, table: Mapping[int, Handler]) -> None:
        """Answer requests from now on."""
        self.handlers.update(table)

    def refuse(self) -> None:
        """Answer every request with a refusal from now on; answers that are not given yet still come."""
        for code in self.handlers:
            self.handlers[code] = _stopping

    async def close(self) -> None:
        """Close the ports and every connection; answers that wait to be sent are sent first."""
        await self._server.close()

    def forget(self, session: ClientSession) -> None:
        """A connection ended: what the broker asked there is not answered any more."""
        self._calls.session_closed(session)


def _stopping(session: ClientSession, command: Command) -> bytes | None:
    raise Refused(Refusal.UNAVAILABLE, "the broker is shutting down; try another one, or later")
