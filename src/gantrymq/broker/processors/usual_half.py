"""What a broker has to know of a half's properties, by one match instead of twenty searches (1 us instead of 14).

A producer gives all its halves properties of the same names in the same order. A pattern is made of a text in which
nothing is unusual: each name once, no empty value, a producer group and a unique key, no delay, no immunity of its own,
nothing that only a broker may set. What fits the pattern is taken as it is; all else goes the long way, with the same
result for every text: tests/broker/processors/test_usual_half.py.
"""

from __future__ import annotations

import re
from typing import Final

from gantrymq.broker.processors.admission import FITS_ANYWAY
from gantrymq.message import properties

PATTERNS_LIMIT: Final = 8
"""The first ones are remembered: one for each set of names that a message of this broker's producers has."""

_UNUSUAL: Final = (
    properties.BROKER_ONLY
    | properties.DELAYS
    | {properties.REGION, properties.TRACE_ON, properties.CLUSTER}
    | {properties.CHECK_IMMUNITY_SECONDS}
)
_NEEDED: Final = {properties.TRANSACTION_PREPARED, properties.PRODUCER_GROUP, properties.UNIQ_KEY}
_VALUES: Final = {
    properties.TRANSACTION_PREPARED: "true",
    properties.PRODUCER_GROUP: f"(?P<{properties.PRODUCER_GROUP}>[^\x01\x02]+)",
    properties.UNIQ_KEY: f"(?P<{properties.UNIQ_KEY}>[^\x01\x02]+)",
    properties.IMMUNE_WHILE_CONNECTED: f"(?P={properties.PRODUCER_GROUP})",
}
"""A mark of decisive checkers is usual when it is behind the group and the same."""


class UsualHalves:
    """Knows the usual texts of one broker."""

    def __init__(self) -> None:
        self._patterns: list[tuple[re.Pattern[str], bool]] = []
        """With whether the mark of decisive checkers is in it."""

    def read(self, text: str) -> tuple[str, str, bool] | None:
        """Producer group, unique key, and whether the group's checkers are decisive; None when the text, which ends
        with a separator, is not known to be usual."""
        for pattern, decisive in self._patterns:
            found = pattern.fullmatch(text)
            if found is not None and len(text) <= FITS_ANYWAY:
                return found[properties.PRODUCER_GROUP], found[properties.UNIQ_KEY], decisive
        return None

    def learn(self, text: str) -> None:
        """Remember what a text that went the long way looks like."""
        if len(self._patterns) < PATTERNS_LIMIT:
            pattern = pattern_of(text)
            if pattern is not None:
                self._patterns.append((pattern, f"{properties.IMMUNE_WHILE_CONNECTED}\x01" in text))


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
    found = re.compile("".join([f"{re.escape(name)}\x01{_VALUES.get(name, _ANY)}\x02" for name in names]))
    return found if found.fullmatch(text) else None


_ANY: Final = "[^\x01\x02]+"
