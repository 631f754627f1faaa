"""The remoting door: clients over sockets that speak RocketMQ's remoting protocol."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from gantrymq.broker.client import Connection
from gantrymq.broker.door import Departures, Ground, Served
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_calls import ClientCalls
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.explain import ExplainHandler
from gantrymq.broker.remoting.handlers import handlers_of
from gantrymq.broker.remoting.refusals import rejection
from gantrymq.broker.remoting.unsupported import refused_codes
from gantrymq.errors import Unreachable
from gantrymq.observability.rpc_latency import RPC_LATENCY
from gantrymq.protocol.command import Command
from gantrymq.remoting.server import Handler, RemotingServer

log = logging.getLogger("gantrymq.broker")

FAST_PORT_BELOW: Final = 2
"""A port this far below ``listenPort`` serves producers that want to be apart from consumers, by RocketMQ's rule."""


class RemotingDoor:
    """Listens, and hands every request to its handler."""

    name: Final = "remoting"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        clock = ground.outside.clock
        self._calls = ClientCalls(clock)
        self._departures: Departures | None = None
        self._explain: ExplainHandler | None = None
        self.handlers: dict[int, Handler] = {}
        """What is answered, by request code; empty until ``serve``."""
        self.server: Final = RemotingServer(
            ground.outside.network,
            clock,
            self.handlers,
            closed=self._closed,
            responses=self._calls.answer,
            refusals=dict(refused_codes()),
            rejection=rejection,
            new_session=partial(ClientSession, self._calls),
            client_limits=ground.client_limits,
        )
        """The sessions of clients."""
        self.server.turns.hold()
        self._serves = False
        self.address = ""

    async def listen(self) -> None:
        """On ``listenPort``, and on the fast port, which clients with the "VIP channel" expect. Apache's broker does
        not serve pulls there; ours serves everything. Source: BrokerController (fastRemotingServer).
        """
        network = self._ground.config.network
        self.address = await self.server.start(network.bind_address, network.listen_port)
        port = network.listen_port - FAST_PORT_BELOW
        if port <= 0:
            return
        try:
            await self.server.start(network.bind_address, port)
        except Unreachable as error:
            log.warning("clients with vipChannelEnabled cannot send to this broker: no fast port %d: %s", port, error)

    def serve(self, broker: Served) -> None:
        operations, users = broker.operations, broker.operations.users
        explaining = operations.administration.explaining
        self._departures = broker.departures
        self._explain = ExplainHandler(explaining, None if users is None else users.rights)
        table = handlers_of(
            self._ground.config, broker.place, self._ground.outside.clock, operations, self._explain
        ).table()
        broker.metrics.share(RPC_LATENCY, self.server.latency.read)
        if broker.gate.closed:
            from gantrymq.broker.remoting.write_gate import behind_gate  # a primary asks nobody

            table = behind_gate(table, broker.gate.reason)
        # Once, here: a broker without users asks nobody about a request.
        if users is not None:
            from gantrymq.broker.remoting.access import behind_guard

            table = behind_guard(table, users)
        self.handlers.update(table)
        if not self._serves:
            self._serves = True
            self.server.turns.release()

    async def refuse(self) -> None:
        for code in self.handlers:
            self.handlers[code] = _stopping
        if self._explain is not None:
            await self._explain.close()

    async def close(self) -> None:
        await self.server.close()

    def forget(self, client: Connection) -> None:
        self._calls.client_gone(client)

    def last_request(self) -> str:
        return self.server.last_request_text()

    def _closed(self, session: ClientSession) -> None:
        if self._departures is not None:
            self._departures.client_gone(session, by_peer=session.left)


def _stopping(session: ClientSession, command: Command) -> bytes | None:
    raise Refused(Refusal.UNAVAILABLE, "the broker is shutting down; try another one, or later")
