"""Messages of the client become messages of FastStream. Bodies and headers of FastStream become properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from faststream.message import StreamMessage, decode_message

from gantrymq.faststream.message import GantryMessage
from gantrymq.message import properties
from gantrymq.message.message import MessageView

CONTENT_TYPE: Final = "content-type"
CORRELATION: Final = "correlation_id"
REPLY_TO: Final = "reply_to"
NO_BODY: Final = "gantry-no-body"
"""On a message whose body is empty for FastStream. RocketMQ has no empty bodies, so one byte is sent."""


def headers_of(view: MessageView) -> dict[str, str]:
    """The user properties: all but RocketMQ's own."""
    return {name: value for name, value in view.properties.items() if name not in properties.RESERVED | {NO_BODY}}


def body_of(view: MessageView) -> bytes:
    return b"" if NO_BODY in view.properties else view.body


def properties_of(headers: Mapping[str, Any], body: bytes, content_type: str | None) -> dict[str, str]:
    """Headers as user properties. RocketMQ drops empty ones, so they are left out."""
    texts = {name: value if isinstance(value, str) else str(value) for name, value in headers.items()}
    if content_type:
        texts.setdefault(CONTENT_TYPE, content_type)
    if not body:
        texts[NO_BODY] = "true"
    return {name: text for name, text in texts.items() if text}


def waits_for_reply(view: MessageView) -> bool:
    """Whether the sender waits by RocketMQ's request and reply."""
    values = view.properties
    return properties.REPLY_TO_CLIENT in values and values.get(properties.MESSAGE_TYPE) != "reply"


class GantryParser:
    """The default parser and decoder."""

    async def parse_message(self, message: MessageView) -> GantryMessage:
        headers = headers_of(message)
        reply_to = headers.get(REPLY_TO, "")
        if waits_for_reply(message):
            reply_to = message.properties[properties.REPLY_TO_CLIENT]
        return GantryMessage(
            raw_message=message,
            body=body_of(message),
            headers=headers,
            reply_to=reply_to,
            content_type=headers.get(CONTENT_TYPE),
            message_id=message.message_id,
            correlation_id=headers.get(CORRELATION),
        )

    async def decode_message(self, msg: StreamMessage[Any]) -> Any:
        return decode_message(msg)


class GantryBatchParser:
    """The parser and decoder of a subscriber with ``batch=True``."""

    def __init__(self) -> None:
        self._single = GantryParser()

    async def parse_batch(self, messages: Sequence[MessageView]) -> GantryMessage:
        all_headers = [headers_of(view) for view in messages]
        headers = all_headers[0] if all_headers else {}
        return GantryMessage(
            raw_message=tuple(messages),
            body=[body_of(view) for view in messages],
            headers=headers,
            batch_headers=all_headers,
            reply_to=headers.get(REPLY_TO, ""),
            content_type=headers.get(CONTENT_TYPE),
            message_id=messages[0].message_id if messages else "",
            correlation_id=headers.get(CORRELATION),
        )

    async def decode_batch(self, msg: StreamMessage[Any]) -> list[Any]:
        return [decode_message(await self._single.parse_message(view)) for view in msg.raw_message]
