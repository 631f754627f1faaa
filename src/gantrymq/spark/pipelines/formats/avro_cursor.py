"""Where some bodies in Avro are read: a position in each of them, and the types of values that are read there.

Nothing is compared with the end of a body before everything was read: positions only grow, so a body was read to its
end and no further exactly if its position is its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Numbers: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bytes of all bodies, one after the other."""

    data: Numbers
    offsets: Numbers

    @classmethod
    def of(cls, bodies: pa.Array) -> Bodies:
        """Bodies, none of which is null."""
        import numpy as np

        _, offsets, values = bodies.buffers()
        data = np.zeros(1, np.uint8) if values is None or not values.size else np.frombuffer(values, np.uint8)
        places = np.frombuffer(offsets, np.int32, len(bodies) + 1, 4 * bodies.offset)
        return cls(data, places.astype(np.int64))

    def cursor(self) -> Cursor:
        import numpy as np

        return Cursor(self.data, self.offsets[:-1].copy(), self.offsets[1:], np.zeros(len(self.offsets) - 1, bool))


@dataclass(slots=True)
class Cursor:
    """Positions in some bodies. Every method reads one value of each of them."""

    data: Numbers
    at: Numbers
    end: Numbers
    wrong: Numbers
    """The bodies that are left to the loop."""

    def of(self, rows: Numbers) -> Cursor:
        """A cursor for some of the bodies."""
        return Cursor(self.data, self.at[rows], self.end[rows], self.wrong[rows])

    def follow(self, rows: Numbers, part: Cursor) -> None:
        """Go on where a cursor for these bodies is."""
        self.at[rows] = part.at
        self.wrong[rows] = part.wrong

    def zeros(self) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        return pa.array(np.zeros(len(self.at), np.int64))

    def refuse(self, rows: Numbers, numbers: Numbers) -> Numbers:
        """The numbers with 0 for these rows, which are left to the loop."""
        import numpy as np

        if rows.any():
            self.wrong |= rows
            return np.where(rows, 0, numbers)
        return numbers

    def signed(self) -> Numbers:
        """A number of a variable length."""
        import numpy as np

        byte: Numbers = self.data.take(self.at, mode="clip")
        self.at += 1
        value = (byte & 0x7F).astype(np.uint64)
        rows = np.flatnonzero(byte & 0x80)
        shift = 7
        while rows.size:
            more: Numbers = self.data.take(self.at[rows], mode="clip")
            if shift == 63:
                # More than 64 bits, or no end.
                self.wrong[rows[more > 1]] = True
                more = more & 1
            value[rows] |= (more & 0x7F).astype(np.uint64) << np.uint64(shift)
            self.at[rows] += 1
            rows = rows[(more & 0x80) != 0]
            shift += 7
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def length(self) -> Numbers:
        """A length, which is within the body."""
        length = self.signed()
        return self.refuse((length < 0) | (length > self.end - self.at), length)

    def fixed(self, size: int) -> Numbers:
        """The length of a value that has no length before it."""
        import numpy as np

        return self.refuse(size > self.end - self.at, np.full(len(self.at), size, np.int64))

    def _bytes(self, length: Numbers) -> tuple[Numbers, Numbers]:
        """So many bytes of each body, one after the other, and where each of them begins."""
        import numpy as np

        offsets: Numbers = np.zeros(len(length) + 1, np.int32)
        np.cumsum(length, out=offsets[1:])
        places = np.arange(offsets[-1], dtype=np.int64) + np.repeat(self.at - offsets[:-1], length)
        self.at += length
        return self.data.take(places, mode="clip"), offsets

    def binary(self, length: Numbers) -> pa.Array:
        import pyarrow as pa

        found, offsets = self._bytes(length)
        return pa.Array.from_buffers(pa.binary(), len(length), [None, pa.py_buffer(offsets), pa.py_buffer(found)])

    def text(self) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        found = self.binary(self.length())
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            bad = np.fromiter((not _is_text(one) for one in found.to_pylist()), bool, len(found))
            self.wrong |= bad
            return pa.array(np.where(bad, None, np.array(found.to_pylist(), object)), pa.binary()).cast(pa.string())

    def boolean(self) -> pa.Array:
        import pyarrow as pa

        byte: Numbers = self.data.take(self.at, mode="clip")
        self.at += 1
        self.wrong |= byte > 1
        return pa.array(byte == 1)

    def floating(self, name: str) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        size, kind = (4, "<f4") if name == "float" else (8, "<f8")
        places = self.at[:, None] + np.arange(size)
        self.at += size
        return pa.array(self.data.take(places, mode="clip").view(kind).reshape(-1))

    def unscaled(self, length: Numbers) -> Numbers:
        """A number in big-endian bytes. Those that 64 bits cannot have are left to the loop."""
        import numpy as np

        empty = length == 0
        first: Numbers = self.data.take(self.at, mode="clip")
        fill = np.where(first & 0x80, 255, 0).astype(np.uint8)
        ends = self.at + length
        places = ends[:, None] - np.arange(8, 0, -1)
        block = np.where(places >= self.at[:, None], self.data.take(places, mode="clip"), fill[:, None])
        value = np.ascontiguousarray(block).view(">i8").reshape(-1).astype(np.int64)
        # The bytes before the last eight must be those of its sign.
        for more in range(8, int(length.max(initial=0))):
            rows = length > more
            byte: Numbers = self.data.take(ends - 1 - more, mode="clip")
            self.wrong |= rows & (byte != np.where(value < 0, 255, 0))
        self.at = ends
        return self.refuse(empty, value)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
