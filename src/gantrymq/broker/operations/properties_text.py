"""What a broker must know of a message's properties, found by one match instead of twenty searches (1 us instead of
14).

A text does not match if it contains a property that changes where the message goes, or that only a broker sets, or an
empty name or value. Such a message takes the general path. For every text both paths give the same result:
tests/broker/operations/test_properties_text.py.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from gantrymq.message import properties
from gantrymq.message.tags import tags_code

NOT_ORDINARY: Final = (
    properties.BROKER_ONLY
    | properties.DELAYS
    | {properties.REGION, properties.TRACE_ON, properties.CLUSTER, properties.CHECK_IMMUNITY_SECONDS}
    | {properties.PRIORITY, properties.LITE_TOPIC}
)
"""A message with one of these does not go the ordinary way, or its text is not stored as it came."""

_READ: Final = (
    properties.TRANSACTION_PREPARED,
    properties.PRODUCER_GROUP,
    properties.UNIQ_KEY,
    properties.WAIT,
    properties.TAGS,
)
_OTHER: Final = "|".join(sorted(NOT_ORDINARY.union(_READ)))
_VALUE: Final = "[^\x02]++"
"""It may hold the separator of names, as in properties.find."""

# What is repeated counts as it comes last, in groups as in properties.find. Nothing is tried again ("++", "*+"): that
# is a third faster. Before Python 3.11.5 a group within "*+" could raise SystemError (CPython issue 101955).
_REPEATED: Final = "*+" if sys.version_info >= (3, 11, 5) else "*"
_ITEMS: Final = "|".join([f"{name}\x01({_VALUE})\x02" for name in _READ])
_ORDINARY: Final = re.compile(f"(?:{_ITEMS}|(?!(?:{_OTHER})\x01)[^\x01\x02]++\x01{_VALUE}\x02){_REPEATED}").fullmatch


def read_ordinary(text: str) -> tuple[str | None, str | None, int, bool, bool] | None:
    """Unique key, producer group (None: there is none), tags code, whether the sender waits until the message is
    safe, and whether it is a half message.

    None when the text, which is empty or ends with a separator, is not known to be ordinary.
    """
    found = _ORDINARY(text)
    if found is None:
        return None
    prepared, group, unique_key, wait, tags = found.groups()
    return unique_key, group, tags_code(tags), wait != "false", prepared == "true"
