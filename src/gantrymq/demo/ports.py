"""Finds free ports for servers that start a moment later, and that may be killed and started again."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import cycle, islice
from pathlib import Path

from gantrymq.errors import Unreachable
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.rng import SystemRng

_PORTS = range(12000, 31000, 4)
"""The ports that are tried. They are below the ephemeral range, so the system gives none of them to another program
while the server is down. The step is the number of ports that a broker uses, so two brokers never share one.
"""
_begin = SystemRng().below(len(_PORTS))
_candidates: Iterator[int] = cycle([*_PORTS[_begin:], *_PORTS[:_begin]])
"""The ports in the order in which they are tried. The beginning is random, so processes that look for ports at the same
time seldom meet.
"""
_KEPT = 512
"""How many ports a process reserves. Beyond that it gives back the oldest one, whose server has long ended."""
_reserved: deque[int] = deque()


def free_port() -> int:
    """A free port of the loopback interface, such that the other ports of a broker are free, too.

    These are the port 2 below it (the fast port) and, for Apache's broker, the one above it (HA). No other process of
    this user gets the port until this one ends, so a server may be down for a while. Raises Unreachable when there is
    none.
    """
    for port in islice(_candidates, len(_PORTS)):
        if _reserve(port):
            if all(map(_is_free, (port - 2, port, port + 1))):
                return port
            _give_back(_reserved.pop())
    raise Unreachable(
        address_of("127.0.0.1", _PORTS.start),
        f"no port below {_PORTS.stop} is free either; end servers of this machine",
    )


def _reserve(port: int) -> bool:
    """Whether no other process has reserved the port. The system ends the reservations of a process that ends."""
    file = _reservations()
    if file is not None:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            pass  # this file system has no locks, so nothing is reserved; the port may be used all the same
    _reserved.append(port)
    if len(_reserved) > _KEPT:
        _give_back(_reserved.popleft())
    return True


def _give_back(port: int) -> None:
    file = _reservations()
    if file is not None and port not in _reserved:
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN, 1, port)


@cache
def _reservations() -> int | None:
    """A file of which each locked byte is a reserved port. None: it cannot be had, and nothing is reserved."""
    path = Path(tempfile.gettempdir(), f"gantrymq-ports-{os.getuid()}")
    with suppress(OSError):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return None


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like servers, which can use a closed port again
        probe.bind(("127.0.0.1", port))
        return True
    return False
