"""How many connections a server accepts, in all and of one client."""

from __future__ import annotations

from typing import Final

from gantrymq.runtime.addresses import host_of, numeric
from gantrymq.runtime.limits.refusals import Reason, Refusals
from gantrymq.runtime.limits.values import Limits

HOST_BITS: Final = 64
"""Of an address of IPv6: what tells the machines of one network apart."""


def client_of(peer: str) -> str:
    """To whom a connection from ``ip:port`` belongs: the address, and of IPv6 the network.

    Whoever has one address of IPv6 usually has its whole network of 2^64. Those of one link belong to many machines.
    """
    host = host_of(peer)
    address = numeric(host) if ":" in host else None
    if address is None:
        return host
    if address.is_link_local or address.is_loopback:
        return host
    from ipaddress import IPv6Network

    return str(IPv6Network((int(address) >> HOST_BITS << HOST_BITS, 128 - HOST_BITS)))


class OpenConnections:
    """Counts the open connections of a server, from the moment they are accepted: a network asks this object before it
    does anything else, so the handshakes of TLS count, too. It is a ``runtime.network.Gate``.

    ``limits`` may be replaced at any time; it counts from then on.
    """

    def __init__(self, limits: Limits, refusals: Refusals) -> None:
        self.limits = limits
        self._refusals = refusals
        self.count = 0
        self._of_client: dict[str, int] = {}

    def admit(self, peer: str) -> bool:
        """Count a connection; False when there are too many already, and it is not counted."""
        client = client_of(peer)
        of_client = self._of_client.get(client, 0)
        if 0 < self.limits.connections <= self.count:
            text = f"refused a connection: there are {self.count}; raise maxConnections if they are wanted"
        elif 0 < self.limits.connections_of_client <= of_client:
            text = (
                f"refused a connection: there are {of_client} from there; raise maxConnectionsPerHost if they are "
                "wanted"
            )
        else:
            self.count += 1
            self._of_client[client] = of_client + 1
            return True
        self._refusals.note(Reason.CONNECTIONS, peer, text)
        return False

    def release(self, peer: str) -> None:
        """A connection that was admitted has ended."""
        client = client_of(peer)
        left = self._of_client[client] - 1
        self.count -= 1
        if left:
            self._of_client[client] = left
        else:
            del self._of_client[client]

    def failed(self, peer: str, reason: str) -> None:
        """A connection that was admitted did not get through its handshake."""
        self._refusals.note(Reason.TLS, peer, reason)
