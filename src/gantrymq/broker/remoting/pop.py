"""POP as frames: POP_MESSAGE (200050), PEEK_MESSAGE (200052), NOTIFICATION (200054), POLLING_INFO (200055); ACK_MESSAGE
(200051), BATCH_ACK_MESSAGE (200151), CHANGE_MESSAGE_INVISIBLETIME (200053) and POP_ROLLBACK (200056).

Source: PopMessageProcessor, PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor, AckMessageProcessor,
ChangeInvisibleTimeProcessor; docs/protocol.md#pop.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.acks import PopAcks
from gantrymq.broker.pop.consumption import PopConsumption
from gantrymq.broker.pop.holds import NOBODY, Hold
from gantrymq.broker.pop.requests import PopRequests
from gantrymq.broker.pop.values import (
    NotificationRequest,
    Notified,
    PopDelivery,
    Popped,
    PopRequest,
    PopResult,
    PopStatus,
    Renewed,
    as_first_sent,
)
from gantrymq.broker.refusal import Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.message.lite_topics import lite_queue
from gantrymq.protocol.bodies.pop import BatchAckRequest, HeldItem, HeldList
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeAnswer,
    ListHeld,
    Notification,
    NotificationAnswer,
    PeekMessage,
    PopMessage,
    PopMessageAnswer,
    WaitingPops,
    WaitingPopsAnswer,
)
from gantrymq.protocol.pop_texts import message_offset_info, order_count_info, start_offset_info

FROM_START: Final = 1
"""``initMode``: begin at the start of a queue."""

RESPONSE_CODES: Final[dict[PopStatus, ResponseCode]] = {
    PopStatus.FOUND: ResponseCode.SUCCESS,
    PopStatus.POLLING_FULL: ResponseCode.POLLING_FULL,
    PopStatus.POLLING_NOT_FOUND: ResponseCode.POLLING_TIMEOUT,
}


class PopHandler:
    """Handles the requests for messages."""

    def __init__(self, config: LiveConfig, requests: PopRequests) -> None:
        self._config = config
        self._requests = requests

    def pop(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(PopMessage)
        request = PopRequest(
            header.consumer_group, header.topic, header.queue_id, header.max_msg_nums, header.invisible_time,
            header.poll_time, header.born_time, header.init_mode == FROM_START, header.exp, header.exp_type,
            bool(header.order), header.attempt_id,
        )  # fmt: skip
        result = self._requests.pop(session, request, partial(self._popped, session, command, request))
        return None if result is None else self._answer(command, request, result)

    def _popped(
        self, session: ClientSession, command: Command, request: PopRequest, outcome: PopResult | Refused
    ) -> None:
        if isinstance(outcome, Refused):
            session.answer(command, rejected(command, outcome), held=True)
        else:
            session.answer(command, self._answer(command, request, outcome), held=True)

    def _answer(self, command: Command, request: PopRequest, result: PopResult) -> bytes:
        popped = result.popped
        batches = popped.batches
        header = PopMessageAnswer(
            pop_time=popped.pop_time, invisible_time=request.invisible_ms, revive_qid=popped.revive_queue,
            rest_num=popped.rest,
            start_offset_info=start_offset_info((batch.kind, batch.queue_id, batch.start_offset) for batch in batches),
            msg_offset_info=message_offset_info((batch.kind, batch.queue_id, batch.offsets) for batch in batches),
            order_count_info=order_count_info(
                (batch.kind, batch.queue_id, batch.offsets, batch.counts) for batch in batches
            ) if request.order else None,
        )  # fmt: skip
        remark = "FOUND" if batches else "NO_MESSAGE_IN_QUEUE"
        return encode_response(
            command, RESPONSE_CODES[result.status], header, self._records(request, popped), remark=remark
        )

    def _records(self, request: PopRequest, popped: Popped) -> bytes:
        if self._config.pop.pop_response_return_actual_retry_topic:
            return b"".join(batch.data for batch in popped.batches)
        return b"".join(
            as_first_sent(
                batch, request.topic, popped.pop_time, request.invisible_ms, popped.revive_queue,
                self._config.identity.broker_name,
            )
            for batch in popped.batches
        )  # fmt: skip

    def peek(self, session: ClientSession, command: Command) -> bytes:
        header = command.header(PeekMessage)
        popped = self._requests.peek(session, header.consumer_group, header.topic, header.queue_id, header.max_msg_nums)
        code, remark = ResponseCode.SUCCESS, "FOUND"
        if not popped.batches:
            code, remark = ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE"
        answer = PopMessageAnswer(pop_time=0, invisible_time=0, revive_qid=0, rest_num=popped.rest)
        return encode_response(command, code, answer, b"".join(batch.data for batch in popped.batches), remark=remark)

    def notification(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(Notification)
        request = NotificationRequest(
            header.consumer_group, header.topic, header.queue_id, header.poll_time, header.born_time,
            bool(header.order), header.attempt_id,
        )  # fmt: skip

        def later(found: Notified) -> None:
            session.answer(command, _notified(command, found), held=True)

        found = self._requests.notification(session, request, later)
        return None if found is None else _notified(command, found)

    def polling_info(self, session: ClientSession, command: Command) -> bytes:
        header = command.header(WaitingPops)
        count = self._requests.polling_count(header.consumer_group, header.topic, header.queue_id)
        return encode_response(command, ResponseCode.SUCCESS, WaitingPopsAnswer(polling_num=count))


def _notified(command: Command, found: Notified) -> bytes:
    answer = NotificationAnswer(has_msg=found.has_message, polling_full=found.polling_full)
    return encode_response(command, ResponseCode.SUCCESS, answer)


class PopAckHandler:
    """Handles what ends or prolongs deliveries."""

    def __init__(self, acks: PopAcks, consumption: PopConsumption) -> None:
        self._acks = acks
        self._consumption = consumption

    def ack(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(AckMessage)
        delivery = PopDelivery(
            header.consumer_group, _where(header.topic, header.lite_topic), header.queue_id, header.offset,
            header.extra_info,
        )  # fmt: skip
        if self._acks.ack(delivery, partial(_acknowledged, session, command), in_hand=bool(header.in_hand)):
            return encode_response(command, ResponseCode.SUCCESS)
        return None

    def batch_ack(self, session: ClientSession, command: Command) -> bytes | None:
        request = BatchAckRequest.of_request(command.body) if command.body else BatchAckRequest()
        self._acks.batch_ack(request.acks, request.broker_name, partial(_acknowledged, session, command))
        return None

    def change(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(ChangeInvisibleTime)
        delivery = PopDelivery(
            header.consumer_group, _where(header.topic, header.lite_topic), header.queue_id, header.offset,
            header.extra_info,
        )  # fmt: skip
        hold = Hold.at_a_proxy(header.holder, header.first_pop or 0) if header.holder else NOBODY
        renewed = self._acks.change_invisible_time(
            delivery, header.invisible_time, suspend=bool(header.suspend), done=partial(_changed, session, command),
            hold=hold,
        )  # fmt: skip
        return None if renewed is None else _renewed(command, renewed)

    def list_held(self, session: ClientSession, command: Command) -> bytes:
        """LIST_HELD: a proxy looks for what another one, which is gone, has prolonged for a client."""
        held = self._consumption.ending_at_proxies(command.header(ListHeld).within_ms)
        items = [
            HeldItem(
                group=one.group, topic=one.topic, holder=one.hold.client, first_pop=one.hold.first_pop,
                handle=str(one.handle),
            )
            for one in held
        ]  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, body=HeldList(held=items).encode())

    def rollback(self, session: ClientSession, command: Command) -> bytes:
        """POP_ROLLBACK moves Apache's records from its key-value store to the revive topic. Ours have never been
        anywhere else, so there is nothing to do, and that is a success.
        """
        return encode_response(command, ResponseCode.SUCCESS)


def _where(topic: str, lite_topic: str | None) -> str:
    """Where the message lies that a client names."""
    return lite_queue(topic, lite_topic) if lite_topic else topic


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
