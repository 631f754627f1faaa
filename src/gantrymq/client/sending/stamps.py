"""The properties of a message on the wire: those of its sender, and those that the client adds.

They are JSON text, as frames contain it. What the client adds to most messages is formatted and not encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gantrymq.errors import MessageIllegal
from gantrymq.message import properties
from gantrymq.message.properties import UNIQ_KEY, WAIT

_json: Final = msgspec.json.Encoder().encode
_TAIL: Final = _json(f"\x02{WAIT}\x01true\x02")[1:]


class Stamps:
    """Gives messages their ids, and adds ``marks``. Both are sent with a message and are not written to the object: it
    belongs to the caller, who may send it again, in another thread at the same time.

    ``next_key``: makes an id; it is given the wall time in ms when that was just asked for.
    """

    __slots__ = ("_head", "_marks", "_next_key", "_size")

    def __init__(self, next_key: Callable[[int | None], str], marks: Mapping[str, str]) -> None:
        self._next_key = next_key
        self._marks = dict(marks)
        text = properties_text(self._marks) + f"{UNIQ_KEY}\x01"
        self._head = _json(text)[1:-1]
        self._size = len(text.encode()) + len(f"\x02{WAIT}\x01true\x02")

    def stamp(self, values: Mapping[str, str], now_ms: int) -> tuple[str, bytes]:
        """The id of a message, and all its properties, id and marks included, as JSON text.

        ``values``: its own properties, which stay as they are; an id among them is kept. Raises MessageIllegal as
        ``properties_text``.
        """
        if not values:
            key = self._next_key(now_ms)
            return key, b'"%b%b%b' % (self._head, key.encode(), _TAIL)
        if UNIQ_KEY in values or WAIT in values or not self._marks.keys().isdisjoint(values):
            carried = self.marked(values, now_ms)
            return carried[UNIQ_KEY], _json(properties_text(carried))
        key = self._next_key(now_ms)
        own = _json(properties_text(values, self._size + len(key)))
        return key, b"%b%b%b%b" % (own[:-1], self._head, key.encode(), _TAIL)

    def marked(self, values: Mapping[str, str], now_ms: int | None = None) -> dict[str, str]:
        """The same as a copy of the properties."""
        carried = {**values, **self._marks}
        if UNIQ_KEY not in carried:
            carried[UNIQ_KEY] = self._next_key(now_ms)
        carried.setdefault(WAIT, "true")
        return carried


def properties_text(values: Mapping[str, str], more_bytes: int = 0) -> str:
    """Properties as they travel; ``more_bytes`` of them will be added.

    Raises MessageIllegal when they contain separators or are too long.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in values.items()])
    # Each property brings one of each separator; more of them, or an empty value, is left to the careful encoder.
    if text.count("\x01") != len(values) or text.count("\x02") != len(values) or "\x01\x02" in text:
        text = properties.encode(values)
    most = properties.MAX_BYTES - more_bytes
    if len(text) > most or (not text.isascii() and len(text.encode()) > most):
        raise MessageIllegal(
            f"the properties (tags, keys and user properties) take more than {properties.MAX_BYTES} bytes; "
            "move some of them into the body"
        )
    return text
