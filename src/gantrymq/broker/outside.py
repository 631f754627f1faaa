"""How a broker reaches the world, and where the world finds it."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.network import Network
from gantrymq.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class Outside:
    """The four ways in which a broker reaches the world."""

    network: Network
    clock: Clock
    rng: Rng
    disk: Disk


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker is, as clients and records know it."""

    address: str
    """``host:port``: an IP address, or the name that brokerIP1 gives."""
    host: bytes
    """The IP address and the port, packed."""
