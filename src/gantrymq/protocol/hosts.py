"""Addresses as records and offset message ids contain them: 4 or 16 address bytes, then the port in 4 bytes.

Source: MessageExt.socketAddress2ByteBuffer; docs/store.md#records.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from typing import Final

from gantrymq.errors import LocalProtocolError
from gantrymq.runtime.addresses import without_brackets

_HOST_V4: Final = struct.Struct(">4si")
_HOST_V6: Final = struct.Struct(">16si")
_INT: Final = struct.Struct(">i")


@lru_cache(maxsize=4096)
def pack_host(text: str) -> bytes:
    """``"10.0.0.1:10911"`` to 8 bytes, ``"[2001:db8::1]:10911"`` to 20.

    Raises LocalProtocolError for anything else, including host names, because a record contains addresses.
    """
    address, _, port = text.rpartition(":")
    try:
        packed = ipaddress.ip_address(without_brackets(address)).packed
        return (_HOST_V4 if len(packed) == 4 else _HOST_V6).pack(packed, int(port))
    except (ValueError, struct.error) as error:
        raise LocalProtocolError(f"{text!r} is not a numeric address with a port (address:port)") from error


@lru_cache(maxsize=4096)
def host_text(packed: bytes) -> str:
    """The text form of a packed host: ``address:port``, an IPv6 address in brackets."""
    if len(packed) == 8:
        a, b, c, d = packed[:4]
        return f"{a}.{b}.{c}.{d}:{_INT.unpack_from(packed, 4)[0]}"
    if len(packed) != 20:
        raise LocalProtocolError("a packed host has 8 (IPv4) or 20 (IPv6) bytes")
    return f"[{ipaddress.IPv6Address(packed[:16])}]:{_INT.unpack_from(packed, 16)[0]}"
