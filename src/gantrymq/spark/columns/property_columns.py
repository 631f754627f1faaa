"""Decodes the properties of many messages at once: to a column with the values of one name, or to a column of maps.

A message's properties are ``name 0x01 value 0x02 name 0x01 value 0x02 ...``; the last 0x02 is optional (the codec for
one message is ``gantrymq.message.properties``). The texts of a batch are in one buffer without gaps. So two passes over
it find the separators of all messages, and a name is searched only before the 0x01 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gantrymq.spark.columns.ranges import take_ranges, text_column

Ints = Any


@dataclass(frozen=True, slots=True)
class _Items:
    """Items ``name 0x01 value`` of many messages, in their order in the blob."""

    begins: Ints
    """Where each name begins."""
    marks: Ints
    """Where each 0x01 is."""
    ends: Ints
    """Behind the last byte of each value."""


@dataclass(frozen=True)
class PropertyTable:
    """The encoded properties of a batch of messages."""

    blob: Ints
    """All texts without gaps, as bytes."""
    bounds: Ints
    """The text of message ``i`` is ``blob[bounds[i]:bounds[i + 1]]``."""

    @classmethod
    def of(cls, texts: pa.Array) -> PropertyTable:
        """``texts``: a binary array without nulls that starts at the beginning of its buffers."""
        count = len(texts)
        bounds = np.frombuffer(texts.buffers()[1], dtype=np.int32)[: count + 1].astype(np.int64)
        values = texts.buffers()[2]
        blob = np.frombuffer(values, dtype=np.uint8) if values is not None and values.size else np.zeros(0, np.uint8)
        return cls(blob[: int(bounds[-1])], bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @cached_property
    def _items(self) -> _Items | None:
        """The items of all messages, if every one is ``name 0x01 value``, as all clients write them. None if a message
        has other texts: they are searched byte by byte."""
        filled = self.bounds[1:][self.bounds[1:] > self.bounds[:-1]]
        open_ends = filled[self.blob[filled - 1] != 2]  # messages whose last item has no 0x02 behind it
        ends = self._ends
        width: Ints = 1
        if len(open_ends):
            place = np.searchsorted(ends, open_ends)
            width = np.insert(np.ones(len(ends), dtype=np.int64), place, 0)
            ends = np.insert(ends, place, open_ends)
        begins: Ints = np.zeros(len(ends), dtype=np.int64)
        begins[1:] = (ends + width)[:-1]
        marks = self._equals
        if len(marks) != len(ends) or not ((begins <= marks) & (marks < ends)).all():
            return None
        return _Items(begins, marks, ends)

    @cached_property
    def _separators(self) -> tuple[Ints, Ints]:
        """Where each 0x01 and each 0x02 is."""
        both = np.flatnonzero(self.blob - np.uint8(1) < 2)
        is_end = self.blob[both] == 2
        return both[~is_end], both[is_end]

    @property
    def _equals(self) -> Ints:
        return self._separators[0]

    @property
    def _ends(self) -> Ints:
        return self._separators[1]

    def find(self, name: bytes) -> pa.Array:
        """The value of ``name`` for every message as a binary array; null where it is absent or empty."""
        items = self._items
        return self._search(name) if items is None else self._find_item(items, name)

    def _find_item(self, items: _Items, name: bytes) -> pa.Array:
        """``find`` where all texts are items: only names of the right length are compared."""
        found = np.flatnonzero((items.marks - items.begins == len(name)) & (items.ends > items.marks + 1))
        begins = items.begins[found]
        for place, word in _words(name):
            if len(found):
                windows = np.ndarray(
                    (len(self.blob) - len(word) + 1,), dtype=f"u{len(word)}", buffer=self.blob, strides=(1,)
                )
                same = windows[begins + place] == np.frombuffer(word, dtype=f"u{len(word)}")[0]
                found, begins = found[same], begins[same]
        starts, ends = items.marks[found] + 1, items.ends[found]
        if len(found) == len(self) and ((begins >= self.bounds[:-1]) & (begins < self.bounds[1:])).all():
            return take_ranges(self.blob, starts, ends)  # one for each message
        return self._values(self._rows(begins), starts, ends)

    def _values(self, rows: Ints, item_starts: Ints, item_ends: Ints) -> pa.Array:
        """Values of some messages, in the order of the blob; null for the others."""
        starts, ends = self.bounds[1:].copy(), self.bounds[1:].copy()
        present: Ints = np.zeros(len(self), dtype=bool)
        # If the name occurs twice, the last value counts, as in a dict that is filled item by item.
        starts[rows], ends[rows], present[rows] = item_starts, item_ends, True
        return take_ranges(self.blob, starts, ends, present)

    def _search(self, name: bytes) -> pa.Array:
        """``find`` in any texts."""
        length = len(name)
        marks = self._equals[self._equals >= length]
        # The last 8, 4 or 1 bytes of the name are compared as one number, which is much faster than comparing text.
        word = 8 if length >= 8 else 4 if length >= 4 else 1
        if len(marks):
            windows = np.ndarray((len(self.blob) - word + 1,), dtype=f"u{word}", buffer=self.blob, strides=(1,))
            marks = marks[windows[marks - word] == np.frombuffer(name[-word:], dtype=f"u{word}")[0]]
        rows = self._rows(marks)
        begin = marks - length
        # The name must be complete: it is at the start of the text, or after the end of another item.
        whole = self._starts_with(begin, name[: length - word])
        whole &= (begin == self.bounds[rows]) | ((begin > self.bounds[rows]) & (self.blob[begin - 1] == 2))
        marks, rows = marks[whole], rows[whole]
        value_ends = np.minimum(self._next_end(marks), self.bounds[rows + 1])
        filled = value_ends > marks + 1
        return self._values(rows[filled], marks[filled] + 1, value_ends[filled])

    def _starts_with(self, positions: Ints, prefix: bytes) -> Ints:
        """Whether the bytes from each position on are ``prefix``."""
        same: Ints = np.ones(len(positions), dtype=bool)
        for place, byte in enumerate(prefix):
            same &= self.blob[positions + place] == byte
        return same

    def maps(self) -> pa.Array:
        """All properties of every message, as ``map<string, string>``. Items without name or value are dropped."""
        items = self._items
        if items is not None:
            good = (items.marks > items.begins) & (items.marks + 1 < items.ends)
            if not good.all():
                items = _Items(items.begins[good], items.marks[good], items.ends[good])
            return self._maps_of(items)
        edges = np.unique(np.concatenate([self.bounds[:-1], self._ends + 1]))
        edges = edges[edges < len(self.blob)]
        rows = self._rows(edges)
        item_ends = np.minimum(self._next_end(edges), self.bounds[rows + 1])
        place = np.searchsorted(self._equals, edges)
        marks = np.append(self._equals, len(self.blob))[place]
        good = (marks > edges) & (marks + 1 < item_ends)
        edges, marks, item_ends = edges[good], marks[good], item_ends[good]
        return self._maps_of(_Items(edges, marks, item_ends))

    def _maps_of(self, items: _Items) -> pa.Array:
        rows = self._rows(items.begins)
        names = text_column(take_ranges(self.blob, items.begins, items.marks))
        values = text_column(take_ranges(self.blob, items.marks + 1, items.ends))
        keep = _last_of_each(rows, names)
        if keep is not None:
            rows, names, values = rows[keep], names.take(pa.array(keep)), values.take(pa.array(keep))
        offsets: Ints = np.zeros(len(self) + 1, dtype=np.int32)
        np.cumsum(np.bincount(rows, minlength=len(self)), out=offsets[1:])
        return pa.MapArray.from_arrays(pa.array(offsets), names, values)

    def _rows(self, positions: Ints) -> Ints:
        """The number of the message to which each byte position belongs."""
        return np.searchsorted(self.bounds, positions, side="right") - 1

    def _next_end(self, positions: Ints) -> Ints:
        """The position of the first 0x02 at or after each position; the end of the blob when there is none."""
        place = np.searchsorted(self._ends, positions)
        return np.append(self._ends, len(self.blob))[place]


def _words(name: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts of a name that are compared as one number each, with their places."""
    place = 0
    while place < len(name):
        size = next(size for size in (8, 4, 2, 1) if size <= len(name) - place)
        yield place, name[place : place + size]
        place += size


def _last_of_each(rows: Ints, names: pa.Array) -> Ints | None:
    """The indices of the items that stay when a name occurs twice in one message; None when that never happens.

    Spark's maps must not contain a key twice.
    """
    if not len(names):
        return None
    encoded = names.dictionary_encode()
    if len(encoded.dictionary) < 63:
        # A bit for each name: the sum of the bits of a message is their union if no name occurs twice.
        bits = np.left_shift(np.int64(1), encoded.indices.to_numpy().astype(np.int64))
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        if (np.add.reduceat(bits, firsts) == np.bitwise_or.reduceat(bits, firsts)).all():
            return None
    pairs = rows * len(encoded.dictionary) + encoded.indices.to_numpy()
    _, last = np.unique(pairs[::-1], return_index=True)
    if len(last) == len(pairs):
        return None
    return np.sort(len(pairs) - 1 - last)
