"""The limits of a server as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the clients of one server may take. 0: no limit.

    A client is an IP address (``connections.client_of``), because until a client has shown who it is, nothing else is
    known of it.
    """

    connections: int = 20_000
    """Open connections of all clients together."""
    connections_of_client: int = 2_000
    """Open connections of one client."""
    bytes_in_flight: int = 2 * 1024**3
    """Bytes of requests that did not arrive whole, and of answers that were not read, of all clients together."""
    bytes_in_flight_of_client: int = 1024**3
    """The same of one client. A frame has 16 MiB at most, so this is room for 64 whole ones."""
    requests_per_second: int = 0
    """Requests of one client, without a limit unless somebody sets one: a broker cannot tell a load from an attack."""
    slow_reader_seconds: float = 60.0
    """A connection whose peer takes no byte of the waiting answers for so long is ended."""
    first_request_seconds: float = 120.0
    """A connection that has not sent its first whole request by then is ended. Java's clients of 5.x open connections
    to name servers long before they need them, so this is as long as any connection may be silent."""
