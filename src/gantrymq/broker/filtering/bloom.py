"""The places of a consumer group in Apache's bloom filter, which ``consumerFilter.json`` stores beside each selector.

This broker does not need it (it evaluates the selectors), but an Apache broker that finds entries of another size drops
the whole file. Source: BloomFilter, murmur3 (128 bits, x64) of the text ``group#topic``.
"""

from __future__ import annotations

import math
from typing import Final

ERROR_PERCENT: Final = 20
"""maxErrorRateOfBloomFilter"""
CONSUMERS: Final = 32
"""expectConsumerNumUseFilter"""
HASHES: Final = math.ceil(math.log(ERROR_PERCENT / 100) / math.log(0.5))
BITS: Final = 8 * math.ceil(math.ceil(CONSUMERS * math.log2(100 / ERROR_PERCENT) * math.log2(math.e)) / 8)

_M64: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def bit_positions(group: str, topic: str) -> list[int]:
    """HASHES places among BITS."""
    value = murmur3(f"{group}#{topic}".encode())
    first, second = _int32(value), _int32(value >> 32)
    combined = [_int32(first + number * second) for number in range(1, HASHES + 1)]
    return [(~number if number < 0 else number) % BITS for number in combined]


def murmur3(data: bytes) -> int:
    """The first 64 bits of the hash, unsigned."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        h1 ^= _mix1(int.from_bytes(data[at : at + 8], "little"))
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & _M64
        h2 ^= _mix2(int.from_bytes(data[at + 8 : at + 16], "little"))
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & _M64
    h1 ^= _mix1(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= _mix2(int.from_bytes(data[whole + 8 :], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _M64
    h2 = (h2 + h1) & _M64
    return (_final(h1) + _final(h2)) & _M64


def _mix1(part: int) -> int:
    return _rotated(part * _C1 & _M64, 31) * _C2 & _M64


def _mix2(part: int) -> int:
    return _rotated(part * _C2 & _M64, 33) * _C1 & _M64


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _M64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _M64
    return value ^ value >> 33


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _M64


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value
