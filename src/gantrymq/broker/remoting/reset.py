"""INVOKE_BROKER_TO_RESET_OFFSET (222)."""

from __future__ import annotations

from gantrymq.broker.operations.reset import ResetOrder, Resets
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.bodies.progress import OffsetsByQueue, key_of
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ResetOffset


class ResetHandler:
    """Sets a group back or forth in a topic."""

    def __init__(self, resets: Resets) -> None:
        self._resets = resets

    def reset(self, session: ClientSession, command: Command) -> bytes:
        """Answered with the offsets by queue."""
        header = command.header(ResetOffset)
        order = ResetOrder(
            header.topic, header.group, header.timestamp, header.is_force, header.queue_id, header.offset
        )  # fmt: skip
        offsets = self._resets.reset(order)
        body = OffsetsByQueue(offset_table={key_of(queue): offset for queue, offset in offsets.items()})
        return encode_response(command, ResponseCode.SUCCESS, body=body.encode())
