"""CONSUMER_SEND_MSG_BACK (36). Source: docs/protocol.md#retries-and-dead-letters."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.operations.giving_up import GivingUp
from gantrymq.broker.operations.send_back import Returned, SendBacks
from gantrymq.broker.pop.values import PopDelivery
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.consumer import SendBack, SendBackAnswer

CLIENT_LIMIT_SINCE_VERSION: Final = 121
"""3.4.9: older clients do not know maxReconsumeTimes."""


class SendBackHandler:
    """Answers when the copy is safe."""

    def __init__(self, send_backs: SendBacks, giving_up: GivingUp) -> None:
        self._send_backs = send_backs
        self._giving_up = giving_up

    def send_back(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(SendBack)
        if header.receipt_handle is not None:
            return self._give_up(session, command, header, header.receipt_handle)
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

    def _give_up(self, session: ClientSession, command: Command, header: SendBack, handle: str) -> bytes | None:
        """A proxy gives a popped message up for its client. Permissions are judged by the message at ``offset``, so it
        has to be the same one."""
        topic, queue_id, queue_offset = header.popped_topic, header.queue_id, header.queue_offset
        if topic is None or queue_id is None or queue_offset is None:
            raise Refused(Refusal.PARAMETER_INVALID, "receiptHandle needs poppedTopic, queueId and queueOffset")
        delivery = PopDelivery(header.group, topic, queue_id, queue_offset, handle)
        if self._giving_up.log_offset_of(delivery) != header.offset:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the message {queue_offset} in queue {queue_id} of {topic} does not lie at {header.offset} in the log",
            )

        def done(refusal: Refused | None) -> None:
            session.answer(command, _ended(command) if refusal is None else rejected(command, refusal))

        return _ended(command) if self._giving_up.give_up(session, delivery, done) else None


def _ended(command: Command) -> bytes:
    return encode_response(command, ResponseCode.SUCCESS, SendBackAnswer(ended=True))
