"""GET_CONSUMER_RUNNING_INFO (307), CONSUME_MESSAGE_DIRECTLY (309) and INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223)."""

from __future__ import annotations

from functools import partial

from gantrymq.broker.operations.consumer_questions import ConsumeNow, ConsumerQuestions, PositionsOfAll
from gantrymq.broker.pushes import ConsumerAnswer
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.protocol.bodies.progress import PositionsByClient, key_of
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ClientOfGroup, ConsumeDirectly, GetConsumerStatus


class RelayHandler:
    """Questions to consumers."""

    def __init__(self, questions: ConsumerQuestions) -> None:
        self._questions = questions

    def running_info(self, session: ClientSession, command: Command) -> None:
        """GET_CONSUMER_RUNNING_INFO."""
        header = command.header(ClientOfGroup)
        done = partial(_hand_back, session, command)
        self._questions.running_info(header.consumer_group, header.client_id, header.jstack_enable, done)

    def consume_directly(self, session: ClientSession, command: Command) -> None:
        """CONSUME_MESSAGE_DIRECTLY."""
        header = command.header(ConsumeDirectly)
        wanted = ConsumeNow(
            header.consumer_group, header.client_id, header.msg_id, header.topic, header.topic_sys_flag,
            header.group_sys_flag,
        )  # fmt: skip
        self._questions.consume_directly(session, wanted, partial(_hand_back, session, command))

    def positions(self, session: ClientSession, command: Command) -> None:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""
        header = command.header(GetConsumerStatus)

        def done(found: PositionsOfAll) -> None:
            table = {
                client_id: {key_of(queue): offset for queue, offset in offsets.items()}
                for client_id, offsets in found.items()
            }
            body = PositionsByClient(consumer_table=table).encode()
            session.answer(command, encode_response(command, ResponseCode.SUCCESS, body=body))

        self._questions.positions(header.group, header.topic, header.client_addr, done)


def _hand_back(session: ClientSession, command: Command, answer: ConsumerAnswer | Refused) -> None:
    if isinstance(answer, Refused):
        frame = rejected(command, answer)
    else:
        frame = encode_response(command, answer.code, body=answer.body, remark=answer.remark, extra=answer.fields)
    session.answer(command, frame)
