"""ACK_MESSAGE (200051), BATCH_ACK_MESSAGE (200151), CHANGE_MESSAGE_INVISIBLETIME (200053) and POP_ROLLBACK (200056)
as frames.

Source: AckMessageProcessor, ChangeInvisibleTimeProcessor; docs/protocol.md#pop.
"""

from __future__ import annotations

from functools import partial

from gantrymq.broker.pop.acks import PopAcks
from gantrymq.broker.pop.values import PopDelivery, Renewed
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.protocol.bodies.pop import BatchAckRequest
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeAnswer


class PopAckHandler:
    """Handles what ends or prolongs deliveries."""

    def __init__(self, acks: PopAcks) -> None:
        self._acks = acks

    def ack(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(AckMessage)
        delivery = PopDelivery(
            header.consumer_group, header.topic, header.queue_id, header.offset, header.extra_info
        )  # fmt: skip
        if self._acks.ack(delivery, partial(_acknowledged, session, command)):
            return encode_response(command, ResponseCode.SUCCESS)
        return None

    def batch_ack(self, session: ClientSession, command: Command) -> bytes | None:
        request = BatchAckRequest.of_request(command.body) if command.body else BatchAckRequest()
        self._acks.batch_ack(request.acks, request.broker_name, partial(_acknowledged, session, command))
        return None

    def change(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(ChangeInvisibleTime)
        delivery = PopDelivery(
            header.consumer_group, header.topic, header.queue_id, header.offset, header.extra_info
        )  # fmt: skip
        renewed = self._acks.change_invisible_time(
            delivery, header.invisible_time, suspend=bool(header.suspend), done=partial(_changed, session, command)
        )
        return None if renewed is None else _renewed(command, renewed)

    def rollback(self, session: ClientSession, command: Command) -> bytes:
        """POP_ROLLBACK moves Apache's records from its key-value store to the revive topic. Ours have never been
        anywhere else, so there is nothing to do, and that is a success.
        """
        return encode_response(command, ResponseCode.SUCCESS)


def _acknowledged(session: ClientSession, command: Command, refused: Refused | None) -> None:
    answer = encode_response(command, ResponseCode.SUCCESS) if refused is None else rejected(command, refused)
    session.answer(command, answer)


def _changed(session: ClientSession, command: Command, outcome: Renewed | Refused) -> None:
    frame = rejected(command, outcome) if isinstance(outcome, Refused) else _renewed(command, outcome)
    session.answer(command, frame)


def _renewed(command: Command, renewed: Renewed) -> bytes:
    answer = ChangeInvisibleTimeAnswer(
        pop_time=renewed.pop_time, invisible_time=renewed.invisible_time, revive_qid=renewed.revive_queue
    )
    return encode_response(command, ResponseCode.SUCCESS, answer)
