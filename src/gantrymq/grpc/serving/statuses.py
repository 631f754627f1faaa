"""How a call ends for gRPC itself, and until when a client waits. RocketMQ's own codes are in the answers."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final
from urllib.parse import quote

from gantrymq.errors import GantryError

_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_READABLE: Final = "".join(chr(byte) for byte in range(0x20, 0x7F) if byte != ord("%"))
TEXT_MAX: Final = 1_000
"""Characters of an explanation; clients limit headers."""


class GrpcStatus(IntEnum):
    """Those that this server gives."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallFailed(GantryError):
    """A call ends with another status than OK."""

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def seconds_of(timeout: str) -> float:
    """Of a ``grpc-timeout`` header, such as ``2500m``. Raises CallFailed."""
    found = _TIMEOUT.fullmatch(timeout)
    if found is None:
        raise CallFailed(
            GrpcStatus.INTERNAL, f"{timeout[:40]!r} is not a valid grpc-timeout; send 1 to 8 digits and a unit"
        )
    return int(found[1]) * _SECONDS[found[2]]


def escaped(text: str) -> str:
    """An explanation as the header ``grpc-message`` has it."""
    return quote(text[:TEXT_MAX], safe=_READABLE)
