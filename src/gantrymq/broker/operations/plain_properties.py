"""What a broker has to know of an ordinary message's properties, by one match instead of a dozen searches: 1 us, not 2.

A text is usual when none of its names is one that changes the way of a message or that only a broker sets, and no name
or value is empty. All else goes the long way, with the same result for every text:
tests/broker/operations/test_plain_properties.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gantrymq.message import properties
from gantrymq.message.tags import tags_code

STEERING: Final = (
    properties.BROKER_ONLY
    | properties.DELAYS
    | {properties.REGION, properties.TRACE_ON, properties.CLUSTER, properties.TRANSACTION_PREPARED}
)
"""A message with one of these is not an ordinary one, or its text is not stored as it came."""

_ANY: Final = "[^\x02]+"
"""A value. It may hold the separator of names, as in properties.find."""
_READ: Final = (properties.UNIQ_KEY, properties.WAIT, properties.TAGS)
_OTHER: Final = "|".join(sorted(STEERING.union(_READ)))
PATTERNS_LIMIT: Final = 64
"""Patterns that one broker makes: to make one takes as long as ten messages."""
_ITEMS_LIMIT: Final = 32
"""Properties of a message of which a pattern is made."""

# What is repeated counts as it comes last, in groups as in properties.find.
_USUAL: Final = re.compile(
    f"(?:{properties.UNIQ_KEY}\x01({_ANY})\x02|{properties.WAIT}\x01({_ANY})\x02|{properties.TAGS}\x01({_ANY})\x02"
    f"|(?!(?:{_OTHER})\x01)[^\x01\x02]+\x01{_ANY}\x02)*"
).fullmatch


def read_usual(text: str) -> tuple[str | None, int, bool] | None:
    """Unique key (None: there is none), tags code, and whether the sender waits until the message is durable.

    None when the text, which is empty or ends with a separator, is not known to be usual.
    """
    found = _USUAL(text)
    if found is None:
        return None
    unique_key, wait, tags = found.groups()
    return unique_key, tags_code(tags), wait != "false"


class UsualSends:
    """Reads the texts of one broker.

    Messages of a topic have properties of the same names in the same order, mostly, so the names of the last one that
    did not fit make a pattern: two thirds of the cost of ``read_usual``, with the same result.
    """

    def __init__(self) -> None:
        self._patterns: dict[str, tuple[Callable[[str], re.Match[str] | None], int, int, int]] = {}
        """By topic: what matches, and the groups of unique key, WAIT and TAGS."""
        self._left = PATTERNS_LIMIT

    def read(self, topic: str, text: str) -> tuple[str | None, int, bool] | None:
        """See ``read_usual``; a unique key that is not there may be empty, too."""
        known = self._patterns.get(topic)
        if known is not None:
            match, first, second, third = known
            found = match(text)
            if found is not None:
                unique_key, wait, tags = found.group(first, second, third)
                return unique_key, tags_code(tags), wait != "false"
        usual = read_usual(text)
        if usual is not None and self._left:
            self._learn(topic, text)
        return usual

    def _learn(self, topic: str, text: str) -> None:
        names = [item.partition("\x01")[0] for item in text.split("\x02")[:-1]]
        if len(set(names)) < len(names) or len(names) > _ITEMS_LIMIT:
            return
        self._left -= 1
        # The first group is empty, for what is not there.
        order = [name for name in names if name in _READ]
        unique_key, wait, tags = [order.index(name) + 2 if name in order else 1 for name in _READ]
        items = [f"{re.escape(name)}\x01{f'({_ANY})' if name in _READ else _ANY}\x02" for name in names]
        self._patterns[topic] = re.compile("()" + "".join(items)).fullmatch, unique_key, wait, tags
