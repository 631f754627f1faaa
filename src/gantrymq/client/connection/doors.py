"""How clients reach the outside world, and the one place where that can be exchanged for clients that do not say it.

A client that is given no ``doors=`` uses the machine's network, clock, chance and disk. A local cluster in the same
process (``gantrymq.testing.LocalCluster``) puts its own in their place for as long as it is open, so that code under
test needs no change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.runtime.network import Network, TcpNetwork
from gantrymq.runtime.rng import Rng, SystemRng

if TYPE_CHECKING:
    from gantrymq.client.connection.endpoint import Endpoint


def nobody(endpoint: Endpoint) -> None:
    """Nobody wants to know which clients start."""


@dataclass(frozen=True, slots=True)
class Doors:
    """The outside world of a client; a simulation replaces them."""

    network: Network = field(default_factory=TcpNetwork)
    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=SystemRng)
    disk: Disk = field(default_factory=OsDisk)
    started: Callable[[Endpoint], None] = nobody
    """Called with the endpoint of each client that starts, on the client's loop."""


_makers: Final[list[Callable[[], Doors]]] = []
"""Who makes the doors of clients that are given none: the last one. Empty: the machine's own."""


def default_doors() -> Doors:
    """The doors of a client that was given none. Called once for each client, when it is made."""
    return _makers[-1]() if _makers else Doors()


def replace_default(make: Callable[[], Doors]) -> Callable[[], None]:
    """Have ``make`` called for each client that is made from now on without doors. Returns what ends that."""
    _makers.append(make)
    return lambda: _makers.remove(make)
