"""Withdraws messages before their time has come. Source: DefaultMQProducerImpl.recallMessage; wire-protocol.md 4.9."""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from gantrymq.errors import MessageIllegal

VERSION: Final = "v1"


class RecallHandle(NamedTuple):
    """What a handle says: Base64 of ``v1 <topic> <broker> <ms of delivery + 1> <UNIQ_KEY>``."""

    topic: str
    broker_name: str
    deliver_ms: int
    unique_key: str


def parse_handle(handle: str) -> RecallHandle:
    """Raises MessageIllegal when it is none that we know."""
    try:
        version, topic, broker_name, deliver_ms, unique_key = base64.urlsafe_b64decode(handle).decode().split(" ")
        if version != VERSION:
            raise MessageIllegal(f"the recall handle has version {version!r}; only {VERSION} is known")
        return RecallHandle(topic, broker_name, int(deliver_ms), unique_key)
    except (ValueError, binascii.Error, UnicodeDecodeError) as error:
        if isinstance(error, MessageIllegal):
            raise
        raise MessageIllegal(f"{handle!r} is no recall handle; it is in the result of the send") from error
