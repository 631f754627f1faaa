"""The network, clock, random numbers and disk that a client uses, and how tests replace them.

A client that is created without ``doors=`` uses those of the machine. While a local cluster is open in the same process
(``gantrymq.testing.LocalCluster``), such a client uses those of the local cluster, so code under test needs no change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.runtime.network import Network, TcpNetwork
from gantrymq.runtime.rng import Rng, SystemRng


class StartedClient(Protocol):
    """The endpoint of a client, as a cluster in the same process sees it."""

    owner: str
    """What its client is, for example ``Producer``."""
    listeners: list[Callable[[], int]]
    """Functions that count the calls of the user's listener which are running or wait for a thread."""

    @property
    def running(self) -> bool:
        """From its start to its close."""


def nobody(endpoint: StartedClient) -> None:
    """Do nothing when a client starts."""


@dataclass(frozen=True, slots=True)
class Doors:
    """The network, clock, random numbers and disk of a client; a simulation replaces them."""

    network: Network = field(default_factory=TcpNetwork)
    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=SystemRng)
    disk: Disk = field(default_factory=OsDisk)
    started: Callable[[StartedClient], None] = nobody
    """Called with the endpoint of each client that starts, on the client's event loop."""


_makers: Final[list[Callable[[], Doors]]] = []
"""The last of these functions makes the doors of clients that are given none. If there is none, clients use the
machine's."""


def default_doors() -> Doors:
    """The doors of a client that was given none. Called once for each client, when it is created."""
    return _makers[-1]() if _makers else Doors()


def replace_default(make: Callable[[], Doors]) -> Callable[[], None]:
    """From now on call ``make`` for each client that is created without doors. Returns a function that ends this."""
    _makers.append(make)
    return lambda: _makers.remove(make)
