"""The handle by which a timer message is withdrawn: URL-safe Base64 of ``v1 <topic> <broker> <ms> <UNIQ_KEY>``.

The time is 1 ms more than that of the slot in which the message waits (TIMER_OUT_MS).

Source: RecallMessageHandle; docs/protocol.md#timer-messages.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal

VERSION: Final = "v1"


class RecallHandle(NamedTuple):
    """The parts of a handle."""

    topic: str
    broker_name: str
    deliver_ms: int
    unique_key: str


def encode(topic: str, broker_name: str, deliver_ms: int, unique_key: str) -> str:
    return base64.urlsafe_b64encode(f"{VERSION} {topic} {broker_name} {deliver_ms} {unique_key}".encode()).decode()


def decode(handle: str) -> RecallHandle:
    """Read a handle. Raises MessageIllegal when it is malformed or of an unknown version."""
    try:
        version, topic, broker_name, deliver_ms, unique_key = base64.urlsafe_b64decode(handle).decode().split(" ")
        if version != VERSION:
            raise MessageIllegal(f"the recall handle has version {version!r}; only {VERSION} is known")
        return RecallHandle(topic, broker_name, int(deliver_ms), unique_key)
    except (ValueError, binascii.Error) as error:
        raise MessageIllegal(f"{handle!r} is not a recall handle; the handle is in the answer to the send") from error
