"""What a broker has to know of a half's properties, by one match instead of twenty searches (1 us instead of 14).

A producer gives all its halves properties of the same names in the same order. A pattern is made of a text in which
nothing is unusual: each name once, no empty value, a producer group and a unique key, no delay, no immunity of its own,
nothing that only a broker may set. What fits the pattern is taken as it is; all else goes the long way, with the same
result for every text: tests/broker/operations/test_half_properties.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gantrymq.broker.operations.admission import FITS_ANYWAY
from gantrymq.message import properties
from gantrymq.message.tags import tags_code

Match = Callable[[str], re.Match[str] | None]

PATTERNS_LIMIT: Final = 8
"""The first ones are remembered: one for each set of names that a message of this broker's producers has."""

_UNUSUAL: Final = (
    properties.BROKER_ONLY
    | properties.DELAYS
    | {properties.REGION, properties.TRACE_ON, properties.CLUSTER}
    | {properties.CHECK_IMMUNITY_SECONDS}
)
_ANY: Final = "[^\x01\x02]++"
_ANY_ASCII: Final = "[\x03-\x7f]++"
"""No separator either, and no zero: twice as fast."""
_NEEDED: Final = {properties.TRANSACTION_PREPARED, properties.PRODUCER_GROUP, properties.UNIQ_KEY}
_VALUES: Final = {
    properties.TRANSACTION_PREPARED: "true",
    properties.PRODUCER_GROUP: f"(?P<{properties.PRODUCER_GROUP}>{_ANY})",
    properties.UNIQ_KEY: f"(?P<{properties.UNIQ_KEY}>{_ANY})",
    properties.TAGS: f"(?P<{properties.TAGS}>{_ANY})",
    properties.IMMUNE_WHILE_CONNECTED: f"(?P={properties.PRODUCER_GROUP})",
}
"""A mark of decisive checkers is usual when it is behind the group and the same."""

_READ: Final = (properties.PRODUCER_GROUP, properties.UNIQ_KEY, properties.TAGS)


class UsualHalves:
    """Knows the usual texts of one broker."""

    def __init__(self) -> None:
        self._patterns: list[tuple[Match, Match, tuple[int, ...], bool]] = []
        """Match of ASCII texts, of all, the groups to read, and whether the mark of decisive checkers is in it."""

    def read(self, text: str) -> tuple[str, str, int, bool] | None:
        """Producer group, unique key, tags code, and whether the group's checkers are decisive; None when the text,
        which ends with a separator, is not known to be usual."""
        for match_ascii, match, groups, decisive in self._patterns:
            found = match_ascii(text) if text.isascii() else match(text)
            if found is not None and len(text) <= FITS_ANYWAY:
                group, key, tags = found.group(*groups)
                return group, key, tags_code(tags), decisive
        return None

    def learn(self, text: str) -> None:
        """Remember what a text that went the long way looks like."""
        if len(self._patterns) < PATTERNS_LIMIT:
            pattern = pattern_of(text)
            if pattern is not None:
                groups = [pattern.groupindex[name] for name in _READ]
                decisive = f"{properties.IMMUNE_WHILE_CONNECTED}\x01" in text
                ascii_pattern = re.compile(pattern.pattern.replace(_ANY, _ANY_ASCII))
                self._patterns.append((ascii_pattern.fullmatch, pattern.fullmatch, tuple(groups), decisive))


def pattern_of(text: str) -> re.Pattern[str] | None:
    """What texts with the same names match; None when there is anything unusual in this one."""
    items = [item.split("\x01") for item in text.removesuffix("\x02").split("\x02")]
    if any(len(item) != 2 or not item[0] or not item[1] for item in items):
        return None
    names = [name for name, _ in items]
    if len(set(names)) < len(names) or not set(names) >= _NEEDED or _UNUSUAL & set(names):
        return None
    mark = properties.IMMUNE_WHILE_CONNECTED
    if mark in names and names.index(mark) < names.index(properties.PRODUCER_GROUP):
        return None
    tags = "" if properties.TAGS in names else f"(?P<{properties.TAGS}>)"
    found = re.compile("".join([f"{re.escape(name)}\x01{_VALUES.get(name, _ANY)}\x02" for name in names]) + tags)
    return found if found.fullmatch(text) else None
