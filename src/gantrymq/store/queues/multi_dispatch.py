"""Records that take a place in further queues beside the one of their topic, and say so in their properties.

| property                   | content                                        |
|----------------------------|------------------------------------------------|
| `INNER_MULTI_DISPATCH`     | names of the queues, separated by commas       |
| `INNER_MULTI_QUEUE_OFFSET` | the queue offset in each of them, likewise     |

The number of such a queue is 0, and its name begins with `%LMQ%`. Source: LmqDispatch, MultiDispatchUtils of 5.5.0.
"""

from __future__ import annotations

from typing import Final

from gantrymq.message import properties
from gantrymq.message.lite_topics import QUEUE_PREFIX

_NAMES: Final = f"{properties.MULTI_DISPATCH}\x01"
_SEPARATOR: Final = ","
NUMBER: Final = 0
"""Of all these queues."""


def further_places(properties_text: str) -> list[tuple[str, int]]:
    """Queue name and queue offset of each further place. Called for every record that a start reads."""
    return _places(properties_text) if _NAMES in properties_text else []


def further_place(name: str, queue_offset: int) -> str:
    """The properties of a record with one further place."""
    return f"{_NAMES}{name}\x02{properties.MULTI_QUEUE_OFFSET}\x01{queue_offset}\x02"


def _places(text: str) -> list[tuple[str, int]]:
    names = (properties.find(text, properties.MULTI_DISPATCH) or "").split(_SEPARATOR)
    offsets = (properties.find(text, properties.MULTI_QUEUE_OFFSET) or "").split(_SEPARATOR)
    if len(names) != len(offsets):
        return []  # of a broker that keeps no such queues
    return [
        (name, int(offset))
        for name, offset in zip(names, offsets, strict=True)
        if _can_be_a_directory(name) and offset.isascii() and offset.isdecimal()
    ]


def _can_be_a_directory(name: str) -> bool:
    """Whether it is a name that a broker makes: the queue lies in a directory of this name."""
    return name.startswith(QUEUE_PREFIX) and "/" not in name and "\0" not in name and len(name.encode()) <= _NAME_MAX


_NAME_MAX: Final = 255
"""Bytes of the name of a directory."""
