"""All limits of one server, for all its doors."""

from __future__ import annotations

from typing import Final

from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.bytes_in_flight import BytesInFlight
from gantrymq.runtime.limits.connections import OpenConnections
from gantrymq.runtime.limits.refusals import Reason, Refusals
from gantrymq.runtime.limits.requests import RequestRates
from gantrymq.runtime.limits.values import Limits


class ClientLimits:
    """Counts what clients take, and what was refused."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self.limits = limits
        self.refusals: Final = Refusals(clock)
        self.connections: Final = OpenConnections(limits, self.refusals)
        self.bytes: Final = BytesInFlight(limits, self.refusals)
        self.requests: Final = RequestRates(limits, clock)

    def change(self, limits: Limits) -> None:
        """``limits`` count from now on. What is there already stays."""
        self.limits = self.connections.limits = self.bytes.limits = limits
        self.requests.per_second = limits.requests_per_second

    def refused(self, reason: Reason) -> int:
        """What was refused for this reason since the start."""
        return self.refusals.counts[reason]
