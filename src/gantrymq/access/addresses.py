"""Which IP addresses a text stands for: one address, a range in CIDR form, and the patterns of ``plain_acl.yml``.

Source: IPAddressUtils (5.x), RemoteAddressStrategyFactory (4.x).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache

from gantrymq.errors import ConfigError

Matcher = Callable[[str], bool]
"""Whether an IP address is meant."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_BYTE_MAX = 255


def check_range(text: str) -> None:
    """Raises ConfigError when the text is neither an IP address nor a range such as 10.0.0.0/8."""
    _network(text)


def in_range(source: str, text: str) -> bool:
    """Whether an IP address is the one of ``text``, or in its range. A source that is no IP address is in none."""
    address = _address(source)
    return address is not None and address in _network(text)


@lru_cache(maxsize=1024)
def _network(text: str) -> _Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        raise ConfigError(f"the source address is {text!r}; write an IP address, or a range like 10.0.0.0/8") from error


@lru_cache(maxsize=4096)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def pattern_4x(text: str) -> Matcher:
    """The matcher of a pattern of ``plain_acl.yml``. Raises ConfigError for one that cannot be read.

    Patterns: ``*``, one address, addresses separated by commas, and for IPv4 in each of the four parts ``*``, a range
    ``1-9`` or, in the last part, a list ``{1,5,9}``.
    """
    text = text.strip()
    if text in ("*", "*.*.*.*", "*:*:*:*:*:*:*:*"):
        return lambda source: True
    if "{" not in text and "," in text:
        matchers = [pattern_4x(part) for part in text.split(",") if part.strip()]
        return lambda source: any(matches(source) for matches in matchers)
    if "*" in text or "-" in text or "{" in text:
        return _by_parts(text)
    check_range(text)
    return lambda source: in_range(source, text)


def _by_parts(text: str) -> Matcher:
    parts = text.split(".")
    if len(parts) != 4:
        raise ConfigError(
            f"the address pattern is {text!r}; write an IPv4 pattern such as 10.0.0.*, 10.0.1-5.* or 10.0.0.{{1,2}}"
        )
    allowed = [_numbers(part, text) for part in parts]

    def matches(source: str) -> bool:
        numbers = source.split(".")
        return len(numbers) == 4 and all(
            number.isdecimal() and int(number) in values for number, values in zip(numbers, allowed, strict=True)
        )

    return matches


def _numbers(part: str, text: str) -> frozenset[int]:
    """The numbers that one part of a pattern stands for."""
    if part == "*":
        return frozenset(range(_BYTE_MAX + 1))
    pieces = part[1:-1].split(",") if part.startswith("{") and part.endswith("}") else [part]
    found: set[int] = set()
    for piece in pieces:
        first, dash, last = piece.strip().partition("-")
        bounds = (first, last if dash else first)
        if not all(bound.isascii() and bound.isdecimal() and int(bound) <= _BYTE_MAX for bound in bounds):
            raise ConfigError(f"the address pattern is {text!r}; its part {part!r} is no number, range or list")
        found |= set(range(int(bounds[0]), int(bounds[1]) + 1))
    return frozenset(found)
