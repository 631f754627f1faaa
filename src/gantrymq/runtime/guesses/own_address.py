"""The addresses by which other machines reach this one, and what a host name stands for.

Source: NetworkUtil.getLocalAddress, which prefers an IPv4 address, and takes one of IPv6 when there is no other.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gantrymq.runtime.addresses import LOOPBACK, numeric

_SOMEWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses that nobody has (RFC 5737, RFC 3849). The route to them is the default route; nothing is sent."""
_GET_ADDRESS: Final = 0x8915
"""SIOCGIFADDR of Linux: the IPv4 address of an interface."""
_ADDRESS_PART: Final = slice(20, 24)
_V6_LIST: Final = "/proc/net/if_inet6"
"""One line for each IPv6 address of this machine: digits, index, length of the prefix, scope, flags, interface."""
_GLOBAL_SCOPE: Final = "00"


def own_address() -> str | None:
    """The address by which other machines most likely reach this one; None: it has only the loopback.

    The order is: the address of the default route of IPv4, of IPv6, then any address of an interface. A container of an
    internal network has no default route.
    """
    return next(_candidates(), None)


def numeric_address(name: str) -> str | None:
    """An IP address of a host: of IPv4 where it has one, as in Java. None: the name cannot be resolved (yet)."""
    if numeric(name) is not None:
        return name
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, UnicodeError):
            found = socket.getaddrinfo(name, None, family=family, type=socket.SOCK_STREAM)
            if found:
                return str(found[0][4][0])
    return None


def _candidates() -> Iterator[str]:
    for family, somewhere in _SOMEWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((somewhere, 9))
            yield str(probe.getsockname()[0])
    yield from _addresses_v4()
    yield from _addresses_v6()


def _addresses_v4() -> Iterator[str]:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, interface in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", interface.encode()[:15]))
                address = socket.inet_ntoa(answer[_ADDRESS_PART])
                if address != LOOPBACK:
                    yield address


def _addresses_v6() -> Iterator[str]:
    try:
        lines = Path(_V6_LIST).read_text("ascii").splitlines()
    except OSError:
        return
    for line in lines:
        digits, _, _, scope, *_ = line.split()
        if scope == _GLOBAL_SCOPE:
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
