"""Addresses as text: ``host:port``, where an IPv6 address is in brackets.

This is the only place that puts a host and a port together, and that takes them apart. A text without brackets is
ambiguous: ``::1:10911`` is an IPv6 address, too. Source: NetworkUtil.normalizeHostAddress, which writes the brackets in
what Apache's brokers register; NetworkUtil.string2SocketAddress, which splits at the last colon.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

LOOPBACK: Final = "127.0.0.1"
LOOPBACK_V6: Final = "::1"
ANY: Final = "0.0.0.0"  # nosec B104 # RocketMQ's default for what a server listens on
EVERYWHERE: Final = (ANY, "::")
"""Hosts to listen on that mean every address of the machine. Both families are meant by each, as in Java."""
MAX_PORT: Final = 65_535
_PORT_DIGITS: Final = 5


def address_of(host: str, port: int) -> str:
    """``host:port``. The host is a name or an IP address, an IPv6 address with or without brackets."""
    bare = without_brackets(host)
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """The parts of ``"host:port"`` (IPv6 in brackets). Raises ValueError, which says what is wrong."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not _is_port(port):
        raise ValueError(f"{address!r} is not an address; write host:port, for example 127.0.0.1:9876")
    return without_brackets(host), int(port)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _PORT_DIGITS and int(text) <= MAX_PORT


@lru_cache(maxsize=4096)
def host_of(address: str) -> str:
    """The host of ``host:port``, without brackets; empty when the text has no port."""
    return without_brackets(address.rpartition(":")[0])


def host_without_port(text: str) -> str:
    """The host of ``host``, ``host:port``, ``[ipv6]`` or ``[ipv6]:port``, as a Host header has them. An IPv6 address
    without brackets has no port."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, colon, port = text.rpartition(":")
    return host if colon and ":" not in host and (not port or port.isdecimal()) else text


def without_brackets(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def numeric(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address that a host is, with or without brackets; None: it is a name."""
    from ipaddress import ip_address  # a millisecond of a start, which many servers do not need

    try:
        return ip_address(without_brackets(host))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host that is given as an IP address or as ``localhost``."""
    address = numeric(host)
    return host.lower() == "localhost" if address is None else address.is_loopback
