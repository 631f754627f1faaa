"""How much memory connections may take for incomplete requests and unread answers, in all and of one client."""

from __future__ import annotations

from typing import Final, Protocol

from gantrymq.runtime.limits.connections import client_of
from gantrymq.runtime.limits.refusals import Reason, Refusals
from gantrymq.runtime.limits.values import Limits

FREE_BYTES: Final = 64 * 1024
"""A connection with less than this is not counted: nearly all connections, nearly always. What they take together is
limited by their number."""


class CountedConnection(Protocol):
    """A connection that takes memory."""

    peer: str

    def bytes_in_flight(self) -> int:
        """How many bytes it has now."""

    def cut_off(self) -> None:
        """End the connection at once, and drop what it holds."""


class _Share:
    """What the connections of one client have."""

    __slots__ = ("held", "total")

    def __init__(self) -> None:
        self.held: dict[CountedConnection, int] = {}
        self.total = 0

    def set(self, holder: CountedConnection, size: int) -> int:
        """Returns by how much the share has grown."""
        grown = size - self.held.pop(holder, 0)
        if size:
            self.held[holder] = size
        self.total += grown
        return grown

    def refresh(self) -> int:
        """Ask every connection what it has now: what was read meanwhile is known to nobody else. Returns as ``set``."""
        return sum(self.set(holder, holder.bytes_in_flight()) for holder in list(self.held))


class BytesInFlight:
    """The bytes of all connections that have more than FREE_BYTES.

    When a limit is passed, the connection with the most bytes is ended: that of the client, or of the client that has
    the most. So somebody who fills the memory with many connections loses them, and nobody loses a small one.
    """

    def __init__(self, limits: Limits, refusals: Refusals) -> None:
        self.limits = limits
        self._refusals = refusals
        self.total = 0
        self._shares: dict[str, _Share] = {}

    def note(self, holder: CountedConnection, size: int) -> None:
        """A connection has this many bytes now; 0 when it has ended."""
        if size <= FREE_BYTES:
            size = 0
        client = client_of(holder.peer)
        share = self._shares.get(client)
        if share is None:
            if not size:
                return
            share = self._shares[client] = _Share()
        self.total += share.set(holder, size)
        if size:
            self._enforce(share)
        if not share.held:
            self._shares.pop(client, None)

    def _enforce(self, share: _Share) -> None:
        """``share``: of the client whose connection has grown."""
        limits = self.limits
        if 0 < limits.bytes_in_flight_of_client < share.total:
            self.total += share.refresh()
        while 0 < limits.bytes_in_flight_of_client < share.total:
            self._cut(share, f"its client has more than {limits.bytes_in_flight_of_client} bytes")
        if 0 < limits.bytes_in_flight < self.total:
            self.total += sum(each.refresh() for each in self._shares.values())
        while 0 < limits.bytes_in_flight < self.total:
            most = max(self._shares.values(), key=lambda each: each.total)
            self._cut(most, f"all clients together have more than {limits.bytes_in_flight} bytes")

    def _cut(self, share: _Share, which: str) -> None:
        """End the connection with the most bytes."""
        holder = max(share.held, key=lambda each: share.held[each])
        size = share.held[holder]
        self.total += share.set(holder, 0)
        self._refusals.note(
            Reason.BYTES, holder.peer,
            f"cut off with {size} bytes of incomplete requests and unread answers, because {which}; raise "
            "maxBytesInFlight and maxBytesInFlightPerHost if they are wanted",
        )  # fmt: skip
        holder.cut_off()
