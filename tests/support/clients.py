"""A client without a connection, for tests of the broker's operations."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.protocol.hosts import pack_host


@dataclass(eq=False)
class PlainClient:
    """A ``broker.client.Client`` whose state the test sets."""

    id: int = 1
    address: str = "127.0.0.1:50001"
    alive: bool = True
    writable: bool = True

    @property
    def host(self) -> bytes:
        return pack_host(self.address)
