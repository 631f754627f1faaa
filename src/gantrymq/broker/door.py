"""A door of the broker: one protocol, through which clients reach its operations.

The doors of a broker stand side by side in a list (``doors.py``) and have one life: ``listen``, ``serve``, ``refuse``,
``close``. A door translates requests into the arguments of operations, and results into answers; it decides nothing.
``tests/broker/doors`` asks each operation through every door.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gantrymq.broker.client import Connection
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.outside import Outside, Place
from gantrymq.broker.write_gate import OPEN, WriteGate
from gantrymq.observability.metrics import Metrics
from gantrymq.runtime.limits.client_limits import ClientLimits


@dataclass(frozen=True, slots=True)
class Ground:
    """What a door stands on, before the broker has opened its store."""

    config: LiveConfig
    outside: Outside
    client_limits: ClientLimits
    """The limits of clients, which all doors share."""


class Departures(Protocol):
    """Where a door says that a client is gone."""

    def client_gone(self, connection: Connection, *, by_peer: bool = False) -> None:
        """The connection of a client ended. ``by_peer``: not this broker ended it."""


@dataclass(frozen=True, slots=True)
class Served:
    """A broker that is open, as its doors see it."""

    place: Place
    operations: Operations
    departures: Departures
    metrics: Metrics
    """A door adds those of its own."""
    gate: WriteGate = OPEN
    """Closed while the broker takes no writes: the door refuses each operation that is one."""


class Door(Protocol):
    """One protocol. Each method is called by the broker, in this order, and once; ``serve`` again whenever the role of
    the broker has changed."""

    @property
    def name(self) -> str:
        """A word for people and settings, for example ``remoting``."""

    @property
    def address(self) -> str:
        """``host:port`` on which it listens; empty when it does not."""

    async def listen(self) -> None:
        """Take its ports. Nothing that comes is read before ``serve``. Raises Unreachable when a port is in use and the
        broker is of no use without it."""

    def serve(self, broker: Served) -> None:
        """Answer requests from now on, with these operations."""

    async def refuse(self) -> None:
        """The broker stops: answer each request with a refusal from now on. Answers that are not given yet still
        come, and what a client may ask again is given up."""

    async def close(self) -> None:
        """Close the ports and every connection; answers that wait to be sent are sent first."""

    def forget(self, client: Connection) -> None:
        """A client, perhaps of another door, ended: what was asked of it is not answered any more."""

    def last_request(self) -> str:
        """What was executed last, and for whom, for people; empty: nothing."""
