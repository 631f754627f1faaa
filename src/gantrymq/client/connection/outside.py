"""The network, clock, random numbers and disk that a client uses, and how tests replace them.

A client that is created without ``outside=`` uses those of the machine. While a local cluster is open in the same
process (``gantrymq.testing.LocalCluster``), such a client uses those of the cluster: code under test stays as it is.
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
class Outside:
    """The network, clock, random numbers and disk of a client; a simulation replaces them."""

    network: Network = field(default_factory=TcpNetwork)
    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=SystemRng)
    disk: Disk = field(default_factory=OsDisk)
    started: Callable[[StartedClient], None] = nobody
    """Called with the endpoint of each client that starts, on the client's event loop."""


_makers: Final[list[Callable[[], Outside]]] = []
"""The last of these functions makes the outside of clients that are given none. If there is none, they use the
machine's."""


def default_outside() -> Outside:
    """What a client uses that was given none. Called once for each client, when it is created."""
    return _makers[-1]() if _makers else Outside()


def replace_default(make: Callable[[], Outside]) -> Callable[[], None]:
    """From now on call ``make`` for each client that is given no ``outside``. Returns a function that ends this."""
    _makers.append(make)
    return lambda: _makers.remove(make)
