"""Makes Arrow arrays of byte ranges in one buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def take_ranges(data: Any, starts: Any, ends: Any, present: Any = None) -> pa.Array:
    """A binary array whose value ``i`` is ``data[starts[i]:ends[i]]``; null where ``present`` is False.

    The ranges must ascend and must not overlap. ``data`` is not copied: the ranges and the gaps between them together
    are a valid binary array over it, and taking every second value of that array copies only the ranges.
    """
    count = len(starts)
    offsets: Any = np.empty(2 * count + 1, dtype=np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = offsets[-2] if count else 0
    around = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    every_second = pa.array(
        np.arange(0, 2 * count, 2, dtype=np.int64), mask=None if present is None else ~np.asarray(present)
    )
    return around.take(every_second)


def text_column(values: pa.Array) -> pa.Array:
    """A binary array as text. Bytes that are not UTF-8 become U+FFFD, as in Java's clients."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string()
        )
