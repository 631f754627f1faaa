"""Finds properties where messages look alike: texts of one length that have the same names at the same places.

Producers write the properties of their messages in one order, so most answers to pulls have a few *layouts*. The first
text of a layout is taken apart. One comparison of all texts with it then shows where every property of every message
is: nothing is searched, and nothing is copied but the values. Texts of any other kind: ``property_columns``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gantrymq.spark.columns.ranges import take_ranges, text_column

Ints = Any
"""A numpy array of integers (numpy is not type-checked here)."""

FEW: Final = 4
TEXTS_PER_LAYOUT: Final = 1000
"""More than a few layouts are worth it only where each has many texts: to find one costs as much as to search 600."""
_VALUE_END: Final = 2
_TOGETHER: Final = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """Texts with the same names at the same places."""

    rows: Ints
    """The messages that have them, ascending; None: all."""
    items: tuple[tuple[bytes, int, int], ...]
    """Name, and where in the text its value begins and ends, in the order of the text."""


class LayoutTable:
    """The properties of a batch of messages that have layouts; the same interface as ``PropertyTable``."""

    def __init__(self, data: Ints, starts: Ints, layouts: list[Layout]) -> None:
        self._data = data
        self._starts = starts
        self._layouts = layouts

    def find(self, name: bytes) -> pa.Array:
        """The value of ``name`` for every message as a binary array; null where it is absent."""
        begins, ends = self._starts.copy(), self._starts.copy()
        present: Ints = np.zeros(len(begins), dtype=bool)
        for layout in self._layouts:
            rows = slice(None) if layout.rows is None else layout.rows
            for item, begin, end in layout.items:
                if item == name:
                    begins[rows] += begin
                    ends[rows] += end
                    present[rows] = True
        return take_ranges(self._data, begins, ends, None if present.all() else present)

    def maps(self) -> pa.Array:
        """All properties of every message, as ``map<string, string>``."""
        counts: Ints = np.empty(len(self._starts), dtype=np.int64)
        for layout in self._layouts:
            counts[slice(None) if layout.rows is None else layout.rows] = len(layout.items)
        offsets: Ints = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        items: Ints = np.empty((3, int(offsets[-1])), dtype=np.int64)
        codes, begins, ends = items
        names: dict[bytes, int] = {}
        for layout in self._layouts:
            if not layout.items:
                continue
            rows = slice(None) if layout.rows is None else layout.rows
            places = offsets[:-1][rows][:, None] + np.arange(len(layout.items))
            starts = self._starts[rows][:, None]
            codes[places] = [names.setdefault(name, len(names)) for name, _, _ in layout.items]
            begins[places] = starts + [begin for _, begin, _ in layout.items]
            ends[places] = starts + [end for _, _, end in layout.items]
        all_names = pa.array([name.decode() for name in names], pa.string()).take(pa.array(codes))
        values = text_column(take_ranges(self._data, begins, ends))
        return pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), all_names, values)


def layout_table(data: Ints, starts: Ints, lengths: Ints) -> LayoutTable | None:
    """The properties whose texts begin at ``starts`` (ascending) and have ``lengths``. None where texts differ too much
    for this, or are not as clients write them.
    """
    if not len(starts) or lengths.min() < 0:
        return None
    sizes = np.flatnonzero(np.bincount(lengths))
    most = max(FEW, len(starts) // TEXTS_PER_LAYOUT)
    if len(sizes) > most:
        return None
    layouts: list[Layout] = []
    for size in sizes.tolist():
        rows = None if len(sizes) == 1 else np.flatnonzero(lengths == size)
        while rows is None or len(rows):
            if len(layouts) >= most:
                return None
            found = _layout(data, starts, rows, size)
            if found is None:
                return None
            layout, rows = found
            layouts.append(layout)
    return LayoutTable(data, starts, layouts)


def _layout(data: Ints, starts: Ints, rows: Ints, size: int) -> tuple[Layout, Ints] | None:
    """The layout of the first of these texts of one size, and the rows that have another one. None: it has none."""
    begins = starts if rows is None else starts[rows]
    nothing: Ints = np.empty(0, dtype=np.int64)
    if size == 0:
        return Layout(rows, ()), nothing
    items = _items(data[int(begins[0]) : int(begins[0]) + size].tobytes())
    if items is None:
        return None
    texts = np.ndarray((len(data) - size + 1,), dtype=f"V{size}", buffer=data, strides=(1,))[begins]
    texts = texts.view(np.uint8).reshape(len(begins), size)
    in_value: Ints = np.zeros(size, dtype=bool)
    for _, begin, end in items:
        in_value[begin:end] = True
    # Two looks at each byte: names and separators are as in the first text, and no value ends early.
    unlike: Ints = np.where(in_value, _anywhere(texts, _is_end), _anywhere(texts, _differs))
    if not unlike.any():
        return Layout(rows, items), nothing
    others: Ints = np.where(in_value, texts == _VALUE_END, texts != texts[0])
    wrong = others.any(axis=1)
    every = np.arange(len(begins)) if rows is None else rows
    return Layout(every[~wrong], items), every[wrong]


def _is_end(texts: Ints, _first: Ints) -> Ints:
    return texts == _VALUE_END


def _differs(texts: Ints, first: Ints) -> Ints:
    return texts != first


def _anywhere(texts: Ints, look: Callable[[Ints, Ints], Ints]) -> Ints:
    """For each place whether ``look`` says yes in any of these texts."""
    # Sixteen texts are one row here: numpy needs longer for a row than for its bytes.
    whole = len(texts) // _TOGETHER * _TOGETHER
    rows = texts[:whole].reshape(-1, _TOGETHER * texts.shape[1])
    found = np.bitwise_or.reduce(look(rows, np.tile(texts[0], _TOGETHER)).view(np.uint8), axis=0)
    rest = look(texts[whole:], texts[0]).view(np.uint8)
    return np.bitwise_or.reduce(np.concatenate([found.reshape(_TOGETHER, -1), rest]), axis=0) != 0


def _items(text: bytes) -> tuple[tuple[bytes, int, int], ...] | None:
    """The items of a text. None where one has no name or no value, or a name occurs twice."""
    items: list[tuple[bytes, int, int]] = []
    at = 0
    for part in text.removesuffix(b"\x02").split(b"\x02"):
        mark = part.find(b"\x01")
        if mark <= 0 or mark + 1 == len(part) or not _is_text(part[:mark]):
            return None
        items.append((part[:mark], at + mark + 1, at + len(part)))
        at += len(part) + 1
    return tuple(items) if len({name for name, _, _ in items}) == len(items) else None


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
