"""CONSUMER_SEND_MSG_BACK (36). Source: docs/protocol.md#retries-and-dead-letters."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.operations.send_back import Returned, SendBacks
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.consumer import SendBack

CLIENT_LIMIT_SINCE_VERSION: Final = 121
"""3.4.9: older clients do not know maxReconsumeTimes."""


class SendBackHandler:
    """Answers when the copy is safe."""

    def __init__(self, send_backs: SendBacks) -> None:
        self._send_backs = send_backs

    def send_back(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(SendBack)
        knows_limit = command.version >= CLIENT_LIMIT_SINCE_VERSION

        def copied(refusal: Refused | None) -> None:
            if not command.is_one_way:
                success = encode_response(command, ResponseCode.SUCCESS)
                session.answer(command, success if refusal is None else rejected(command, refusal))

        returned = Returned(
            header.group, header.offset, header.delay_level, header.max_reconsume_times if knows_limit else None
        )
        self._send_backs.send_back(session, returned, copied)
        return None
