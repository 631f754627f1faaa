"""The attributes of a consumer group, and how a request changes them. Pure.

A request says ``+name`` for an attribute that it sets and ``-name`` for one that it removes, as requests about topics
do. What it does not name stays. A name without a sign sets an attribute, too: earlier tools of this project sent it so.
Source: AttributeUtil.alterCurrentAttributes, SubscriptionGroupAttributes; docs/protocol.md#message-types.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.broker.pop.lite.subscriptions import SUBSCRIPTIONS_MAX
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.protocol.files.groups import (
    LITE_CLIENT_QUOTA,
    LITE_EXCLUSIVE,
    LITE_SHARED,
    LITE_SUB_MODEL,
    PRIORITY_FACTOR,
    PRIORITY_FACTOR_MAX,
)


def changed(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """The attributes after a request. Raises Refused for a value that an attribute cannot have."""
    attributes = dict(current)
    for signed, value in changes.items():
        name = signed.removeprefix("+")
        if signed.startswith("-"):
            attributes.pop(signed[1:], None)
        elif not name or not value:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the attribute {signed!r} of the group has no name or no value; write +name=value, or -name",
            )
        else:
            _check(name, value)
            attributes[name] = value
    return attributes


def _check(name: str, value: str) -> None:
    if name == PRIORITY_FACTOR and not _is_number(value, PRIORITY_FACTOR_MAX):
        expected = f"a number from 0 to {PRIORITY_FACTOR_MAX}"
    elif name == LITE_SUB_MODEL and value not in (LITE_SHARED, LITE_EXCLUSIVE):
        expected = f"{LITE_SHARED} or {LITE_EXCLUSIVE}"
    elif name == LITE_CLIENT_QUOTA and value != "-1" and not _is_number(value, SUBSCRIPTIONS_MAX):
        expected = f"a number up to {SUBSCRIPTIONS_MAX}, or -1 for no limit"
    else:
        return
    raise Refused(Refusal.PARAMETER_INVALID, f"{name} is {value!r}; write {expected}")


def _is_number(value: str, largest: int) -> bool:
    return value.isascii() and value.isdecimal() and int(value) <= largest
