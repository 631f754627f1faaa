"""The Huffman code of header values. Source: RFC 7541, 5.2 and appendix B.

The code is canonical: symbols of equal length follow each other, in the order of their numbers. So the lengths say
everything.
"""

from __future__ import annotations

from typing import Final

_LENGTHS: Final = bytes((
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28,
    28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6,
    12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5,
    6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22,
    22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21,
    20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22,
    23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
    28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27,
    28, 27, 27, 27, 27, 27, 26, 30,
))  # fmt: skip
"""Bits of the code of each byte, and last of the end of a text."""
_END: Final = 256
_SHORT: Final = 8


def _codes() -> dict[tuple[int, int], int]:
    """The symbol of each (length, code)."""
    codes: dict[tuple[int, int], int] = {}
    code = length = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda one: (_LENGTHS[one], one)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        codes[length, code] = symbol
        code += 1
    return codes


_CODES: Final = _codes()
_LONG: Final = tuple(sorted({length for length, _ in _CODES if length > _SHORT}))


def _by_first_bits() -> list[tuple[int, int] | None]:
    """For each byte with which a code may begin: the symbol and its length; None: the code is longer than a byte."""
    found: list[tuple[int, int] | None] = [None] * 256
    for (length, code), symbol in _CODES.items():
        if length <= _SHORT:
            first = code << (_SHORT - length)
            for byte in range(first, first + (1 << (_SHORT - length))):
                found[byte] = symbol, length
    return found


_FIRST: Final = _by_first_bits()


def decode(data: bytes) -> bytes:
    """Raises ValueError when the text or its padding is not valid."""
    out = bytearray()
    bits = count = 0  # those that are read and not used yet
    for byte in data:
        bits = bits << 8 | byte
        count += 8
        while count >= _SHORT:
            short = _FIRST[bits >> (count - _SHORT)]
            symbol, length = short if short is not None else _long(bits, count)
            if not length:
                break
            if symbol == _END:
                raise ValueError("the end of a text is in its middle")
            out.append(symbol)
            count -= length
            bits &= (1 << count) - 1
    # The rest is shorter than a byte; it may have whole codes, and then ones up to the end.
    while count:
        short = _FIRST[(bits << (_SHORT - count) | (1 << (_SHORT - count)) - 1) & 0xFF] if count < _SHORT else None
        if short is None or short[1] > count:
            break
        out.append(short[0])
        count -= short[1]
        bits &= (1 << count) - 1
    if count >= _SHORT or bits != (1 << count) - 1:
        raise ValueError("the padding of a text is not valid")
    return bytes(out)


def _long(bits: int, count: int) -> tuple[int, int]:
    """Symbol and length of a code that is longer than a byte; length 0: it is not there wholly."""
    for length in _LONG:
        if length > count:
            break
        symbol = _CODES.get((length, bits >> (count - length)))
        if symbol is not None:
            return symbol, length
    return 0, 0
