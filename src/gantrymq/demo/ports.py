"""Finds free ports for servers that are started a moment later, and perhaps again after a kill."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice

from gantrymq.errors import Unreachable
from gantrymq.runtime.network import address_of
from gantrymq.runtime.rng import SystemRng

_PORTS = range(12000, 31000, 4)
"""Below the ports that systems give to outgoing connections and to whoever asks for any port: none of these takes one
while the server that it is meant for is not there. In steps of what a broker takes: two never get the same.
"""
_begin = SystemRng().below(len(_PORTS))
_candidates: Iterator[int] = cycle([*_PORTS[_begin:], *_PORTS[:_begin]])
"""From anywhere, since several processes look at the same time; and none twice while others are left."""


def free_port() -> int:
    """A free port of the loopback interface, and so are those that a broker takes beside it.

    That is 2 below (the fast port) and, where it is Apache's, 1 above (HA). Raises Unreachable when there is none.
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
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what is closed already is free
        probe.bind(("127.0.0.1", port))
        return True
    return False
