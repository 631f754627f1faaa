"""The clients that a test has made in a local cluster, by name and place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from gantrymq.client.connection.outside import Outside, StartedClient
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.rng import SystemRng
from gantrymq.testing.local.network import LocalNetwork, NodeNetwork


@dataclass(eq=False, slots=True)
class MadeClient:
    """One client, from its making on."""

    place: str
    """``file:line`` of the test's code, or the service's, that made it."""
    network: NodeNetwork
    endpoint: StartedClient | None = None
    """None until it starts."""

    @property
    def open(self) -> bool:
        return self.endpoint is not None and self.endpoint.running

    @property
    def name(self) -> str:
        return self.endpoint.owner if self.endpoint is not None else "client"


@dataclass(eq=False, slots=True)
class Clients:
    network: LocalNetwork
    clock: Clock
    started: Callable[[StartedClient], None]
    """Told of each that starts, on its loop."""
    made: list[MadeClient] = field(default_factory=list)

    def outside(self) -> Outside:
        """The outside of a client that is being made."""
        self.network.check_process()
        client = MadeClient(_place(), self.network.of(None))
        self.made.append(client)

        def started(endpoint: StartedClient) -> None:
            client.endpoint = endpoint
            self.started(endpoint)

        return Outside(client.network, self.clock, SystemRng(), OsDisk(), started)

    def own_outside(self) -> Outside:
        """Outside of a client that the cluster has for itself."""
        return Outside(self.network.of(None), self.clock)

    async def kill(self, client: object) -> None:
        """Cut off a client that the test has. Raises ConfigError for one that is not of this cluster."""
        endpoint = getattr(getattr(client, "_client", client), "_endpoint", None)
        found = [known for known in self.made if endpoint is not None and known.endpoint is endpoint]
        if not found:
            raise ConfigError(f"{client!r} is no client that was started in this local cluster")
        found[0].network.cut()

    def cut(self) -> None:
        """Cut off all of them."""
        for client in self.made:
            client.network.cut()

    def forgotten(self) -> list[MadeClient]:
        """Those that are started and not closed."""
        return [client for client in self.made if client.open]


def _place() -> str:
    """Who outside of this package makes the client."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("gantrymq."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
