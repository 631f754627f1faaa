"""The properties of a message in a request: those of its sender, and those that the client adds.

They are JSON text, ready for the frame. For speed, what the client adds to most messages is formatted as text instead
of being encoded as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gantrymq.errors import MessageIllegal
from gantrymq.message import properties
from gantrymq.message.properties import UNIQ_KEY, WAIT
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES

_json: Final = msgspec.json.Encoder().encode
_TAIL: Final = _json(f"\x02{WAIT}\x01true\x02")[1:]


class Stamps:
    """Adds an id and ``marks`` to the properties of messages. They are sent, but not written to the message object,
    which belongs to the caller: the program may send it again, even in another thread at the same time.

    ``next_key``: makes an id. Its argument is the wall time in ms, if it was just read, or None.
    """

    __slots__ = ("_head", "_marks", "_next_key", "_size")

    def __init__(self, next_key: Callable[[int | None], str], marks: Mapping[str, str]) -> None:
        self._next_key = next_key
        self._marks = dict(marks)
        text = properties_text(self._marks) + f"{UNIQ_KEY}\x01"
        self._head = _json(text)[1:-1]
        self._size = len(text.encode()) + len(f"\x02{WAIT}\x01true\x02")

    def stamp(self, values: Mapping[str, str], now_ms: int) -> tuple[str, bytes]:
        """The id of a message, and all its properties as JSON text, including the id and the marks.

        ``values``: the message's own properties, which are not changed; an id among them is kept. Raises MessageIllegal
        like ``properties_text``.
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
        """Like ``stamp``, but returns a copy of the properties."""
        carried = {**values, **self._marks}
        if UNIQ_KEY not in carried:
            carried[UNIQ_KEY] = self._next_key(now_ms)
        carried.setdefault(WAIT, "true")
        return carried


def properties_text(values: Mapping[str, str], more_bytes: int = 0) -> str:
    """The properties as one text. ``more_bytes``: how many bytes the caller will add to it.

    Raises MessageIllegal when they contain separators or are too long.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in values.items()])
    # Each property adds one of each separator. If there are more separators, or an empty value, ``encode`` checks the
    # properties one by one.
    if text.count("\x01") != len(values) or text.count("\x02") != len(values) or "\x01\x02" in text:
        text = properties.encode(values)
    most = MAX_PROPERTIES_BYTES - more_bytes
    if len(text) > most or (not text.isascii() and len(text.encode()) > most):
        raise MessageIllegal(
            f"the properties (tags, keys and user properties) take more than {MAX_PROPERTIES_BYTES} bytes; "
            "move some of them into the body"
        )
    return text
