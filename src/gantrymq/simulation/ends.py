"""Ends of transactions as other clients send them: one-way, twice, and by a producer that was not asked."""

from __future__ import annotations

from typing import Any

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.producer import Producer
from gantrymq.client.results import TransactionSendResult
from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.sending.half_ends import HalfEnds, undecided
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id

TIMEOUT_MS = 3000


class OneWayEnds:
    """Sends an end once, and reads no answer. The rest is as in ``inner``."""

    def __init__(self, inner: HalfEnds, delivery: Delivery, timeout_ms: int) -> None:
        self._inner = inner
        self._delivery = delivery
        self._timeout_ms = timeout_ms
        self.decide_late, self.tell_unknown = inner.decide_late, inner.tell_unknown

    async def decide(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        try:
            channel = await self._delivery.channel_to(half.result.queue, self._timeout_ms)
        except GantryError as error:
            return undecided(half, outcome, error)
        opaque = channel.next_opaque()
        header = self._inner.header(half, outcome)
        channel.send(encode_request(RequestCode.END_TRANSACTION, opaque, header, one_way=True))
        return undecided(half, outcome, None)


class OneWayProducer(TransactionProducer):
    """Ends its transactions as Apache's clients do: one-way, once, and never learns what became of it."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        inner = HalfEnds(self._endpoint, self._delivery, self._memory, self._config, self.group)
        self._halves.ends = OneWayEnds(inner, self._delivery, self._config.send_timeout_ms)


def end_of_result(group: str, topic: str, sent: TransactionSendResult, state: LocalTransactionState) -> EndTransaction:
    """What ends, once more, the transaction that ``send_in_transaction`` told of."""
    _, log_offset = parse_offset_message_id(sent.offset_message_id)
    return _end(
        group,
        topic,
        sent.queue_offset,
        log_offset,
        sent.transaction_id or sent.message_id,
        sent.queue.broker_name,
        state,
        False,
    )


def end_of_check(group: str, half: MessageView, broker: str, state: LocalTransactionState) -> EndTransaction:
    """What answers the check that showed ``half``."""
    topic = half.properties.get("REAL_TOPIC", half.topic)
    return _end(group, topic, half.queue_offset, half.log_offset, half.transaction_id or "", broker, state, True)


def _end(
    group: str, topic: str, queue_offset: int, log_offset: int, transaction_id: str, broker: str,
    state: LocalTransactionState, from_check: bool,
) -> EndTransaction:  # fmt: skip
    return EndTransaction(
        producer_group=group, tran_state_table_offset=queue_offset, commit_log_offset=log_offset,
        commit_or_rollback=int(state.resolution), from_transaction_check=from_check, msg_id=transaction_id,
        transaction_id=transaction_id, topic=topic, bname=broker,
    )  # fmt: skip


async def send_end(producer: Producer, header: EndTransaction) -> bool:
    """Send an end over the producer's own connection; whether the broker confirmed it."""
    address = producer._endpoint.routes.master(header.bname or "")
    if address is None:
        return False
    try:
        answer = await producer._endpoint.call(address, RequestCode.END_TRANSACTION, header, timeout_ms=TIMEOUT_MS)
    except GantryError:
        return False
    return answer.code == ResponseCode.SUCCESS
