"""Compressed bodies of single messages that brokers push: small ones are decompressed on the event loop, others in a
thread, and none further than ``most``."""

from __future__ import annotations

import asyncio
from typing import Final

from gantrymq.message import flags
from gantrymq.message.message import MessageView, StoredMessage
from gantrymq.protocol.compression import decompressed_start
from gantrymq.protocol.stored_message import to_view

ON_LOOP_BYTES: Final = 1024 * 1024
"""What is decompressed in one turn of the event loop, at most: about 4 ms."""


def begun_view(stored: StoredMessage, broker_name: str) -> MessageView:
    """The message, with ``body_cut`` when its body is a matter for ``complete``.

    Raises RemoteProtocolError when the body cannot be decompressed.
    """
    most = ON_LOOP_BYTES if stored.sys_flag & flags.COMPRESSED else None
    return to_view(stored, broker_name, most)


async def complete(view: MessageView, stored: StoredMessage, most: int) -> None:
    """Give ``view`` its whole body. One that grows over ``most`` stays as it is stored, with ``body_cut``: who looks at
    the properties only can still use the message."""
    body, whole = await plain(stored.body, stored.sys_flag, most)
    view.body, view.body_cut = (body, False) if whole else (stored.body, True)


async def plain(body: bytes, sys_flag: int, most: int) -> tuple[bytes, bool]:
    """See ``decompressed_start``; in a thread."""
    return await asyncio.to_thread(decompressed_start, body, sys_flag, most)
