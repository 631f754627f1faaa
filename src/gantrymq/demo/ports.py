"""Finds free ports for servers that start a moment later, and that may be killed and started again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice

from gantrymq.errors import Unreachable
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.rng import SystemRng

_PORTS = range(12000, 31000, 4)
"""The ports that are tried. They are below the ephemeral range, so the system gives none of them to another program
while the server is down. The step is the number of ports that a broker uses, so two brokers never share one.
"""
_begin = SystemRng().below(len(_PORTS))
_candidates: Iterator[int] = cycle([*_PORTS[_begin:], *_PORTS[:_begin]])
"""The ports in the order in which they are tried. The beginning is random, because several processes may look for ports
at the same time."""


def free_port() -> int:
    """A free port of the loopback interface, such that the other ports of a broker are free, too.

    These are the port 2 below it (the fast port) and, for Apache's broker, the one above it (HA). Raises Unreachable
    when there is none.
    """
    for port in islice(_candidates, len(_PORTS)):
        if all(map(_is_free, (port - 2, port, port + 1))):
            return port
    raise Unreachable(
        address_of("127.0.0.1", _PORTS.start),
        f"no port below {_PORTS.stop} is free either; end servers of this machine",
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like servers, which can use a closed port again
        probe.bind(("127.0.0.1", port))
        return True
    return False
