"""The names of RocketMQ's versions. Requests and heartbeats carry a version as a number; tools and metrics show its
name.

Source: MQVersion.Version, an enumeration without gaps: each release has a snapshot before it. What Apache's 5.5.0
prints for a number is in tests/protocol/test_versions.py.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = 513
"""The protocol version in our requests, the ordinal of 5.5.0. Peers derive from it which fields and answers we
understand."""
_FIRST: Final = 212
"""The number of V4_0_0_SNAPSHOT."""
_HIGHER: Final = 612
"""This one and all above it are newer than Apache's 5.5.0 knows."""


def version_name(number: int) -> str:
    """``V5_5_0`` for 513; ``HIGHER_VERSION`` for what is newer than 5.9.9, and the number itself before 4.0.0."""
    if number >= _HIGHER:
        return "HIGHER_VERSION"
    if number < _FIRST:
        return str(number)
    release, final = divmod(number - _FIRST, 2)
    major, minor, patch = 4 + release // 100, release // 10 % 10, release % 10
    return f"V{major}_{minor}_{patch}{'' if final else '_SNAPSHOT'}"
