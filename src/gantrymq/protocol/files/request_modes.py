"""How groups read topics, as ``config/messageRequestMode.json`` has it. Tools get and send the same objects.

Source: MessageRequestModeManager, SetMessageRequestModeRequestBody.
"""

from __future__ import annotations

from msgspec import field

from gantrymq.message.numbers import Int
from gantrymq.message.pop import RequestMode
from gantrymq.protocol.body import Body


class GroupRequestMode(Body, frozen=True, kw_only=True):
    """Request body of SET_MESSAGE_REQUEST_MODE, and an entry in the broker's file."""

    topic: str
    consumer_group: str
    mode: RequestMode = RequestMode.PULL
    pop_share_queue_num: Int = 0
    """How many further members share a member's queues; 0 or less: every member pops from every queue."""


class RequestModeTable(Body, frozen=True, kw_only=True):
    """Answer to GET_ALL_MESSAGE_REQUEST_MODE, and the content of the broker's file: modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, GroupRequestMode]] = field(default_factory=dict)
