"""How a producer tells brokers what became of a local transaction: COMMIT, ROLLBACK or UNKNOWN of a half message.

| the broker                         | what happens                                                              |
|------------------------------------|---------------------------------------------------------------------------|
| confirms it                        | it is decided                                                             |
| cannot be reached, or is too busy  | it is tried again, soon (``decide``) and later (``decide_late``)          |
| is Apache's, and did not answer    | not again: it would deliver the message a second time. It will ask        |
| had decided otherwise before       | TransactionConflict                                                       |
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from gantrymq.client.config import TransactionProducerConfig
from gantrymq.client.connection.endpoint import RETRY_PAUSE_S, Endpoint
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.results import TransactionSendResult
from gantrymq.client.sending.delivery import RETRIED_CODES, Delivery
from gantrymq.client.sending.end_frame import EndFrames
from gantrymq.client.sending.half_memory import HalfMemory
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.errors import Closed, GantryError, RequestRejected, TransactionConflict, Unreachable
from gantrymq.message.message import MessageView
from gantrymq.message.queues import LogOffset, MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.remoting.channel import Answer, ClientChannel

log = logging.getLogger("gantrymq.client")

_RESOLUTIONS: Final = {state: int(state.resolution) for state in LocalTransactionState}
LATE_END_PAUSE_S: Final = 0.5
LATE_END_PAUSE_MAX_S: Final = 10.0
LATE_ENDS: Final = 12
"""An end that did not reach its broker is repeated so often; the pauses double. That is more than a minute and a half,
longer than brokers let a half wait before they ask."""
AskAgain: TypeAlias = Callable[[MessageView, str], Awaitable[ListenerAnswer]]
"""Asks the listener what became of a local transaction: its half message and its id."""
Decide: TypeAlias = Callable[[SentHalf, ListenerAnswer], Awaitable[TransactionSendResult]]
"""``HalfEnds.decide``."""


class Ends(Protocol):
    """Whoever ends half messages. The simulation has one that does it as Apache's clients do."""

    async def decide(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult: ...

    async def decide_late(self, half: SentHalf, outcome: ListenerAnswer, ask: AskAgain, decide: Decide) -> None: ...

    def tell_unknown(self, half: SentHalf, outcome: ListenerAnswer) -> None: ...


class HalfEnds:
    """Ends the half messages of one producer."""

    def __init__(
        self, endpoint: Endpoint, delivery: Delivery, memory: HalfMemory, config: TransactionProducerConfig, group: str
    ) -> None:
        self._endpoint = endpoint
        self._delivery = delivery
        self._memory = memory
        self._config = config
        self._group = group
        self._frames: dict[MessageQueue, EndFrames] = {}

    async def decide(self, half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        """Send COMMIT or ROLLBACK until the broker has answered, some times. Raises TransactionConflict."""
        error: GantryError | None = None
        for attempt in range(1 + self._config.end_retries):
            if attempt:
                await self._endpoint.clock.sleep(RETRY_PAUSE_S * attempt)
                await self._endpoint.routes.refresh([half.message.topic])
            try:
                queue, delivery = half.result.queue, self._delivery
                channel = delivery.ready(queue) or await delivery.channel_to(queue, self._config.send_timeout_ms)
                sent = self._end_on(channel, half, outcome)
            except Unreachable as failure:
                error = failure
                continue
            except Closed as failure:
                error = failure
                break
            try:
                answer = await sent
            except GantryError as failure:
                error = failure
                self._delivery.failed(queue)
                if self._endpoint.speaks_java(channel.address):
                    # If Apache's broker has carried out the first attempt, a second one would deliver the message
                    # again. The check-back settles the transaction instead.
                    break
                continue
            if answer.code == ResponseCode.SUCCESS:
                self._memory.confirmed(half.transaction_id)
                return result_of(half, outcome, decided=True)
            refused = RequestRejected(answer.code, answer.remark, request=f"end of transaction {half.transaction_id}")
            if answer.code == ResponseCode.ILLEGAL_OPERATION:
                log.error(
                    "transaction %s was to be %s, but the broker had decided otherwise before: %s",
                    half.transaction_id,
                    outcome.state.name,
                    refused,
                )
                result = result_of(half, outcome, decided=False, error=refused)
                raise TransactionConflict(answer.code, answer.remark, half.transaction_id, result)
            error = refused
            if answer.code not in RETRIED_CODES or self._endpoint.speaks_java(channel.address):
                break
        return undecided(half, outcome, error)

    async def decide_late(self, half: SentHalf, outcome: ListenerAnswer, ask: AskAgain, decide: Decide) -> None:
        """``decide`` did not reach the broker: repeat it for a while, until the broker has answered. Where the outcome
        was not known, ``ask`` the listener first. ``decide``: the method above, perhaps with somebody who records it.

        Not with an Apache broker: it would deliver again if it had carried out the first attempt. It will ask.
        """
        pause_s = LATE_END_PAUSE_S
        for _ in range(LATE_ENDS):
            address = self._endpoint.routes.master(half.result.queue.broker_name)
            if address is not None and self._endpoint.speaks_java(address):
                return
            await self._endpoint.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LATE_END_PAUSE_MAX_S)
            if outcome.state is LocalTransactionState.UNKNOWN:
                outcome = await ask(_view_of(half), half.transaction_id)
            if outcome.state is LocalTransactionState.UNKNOWN:
                continue
            self._memory.ended(half.transaction_id, outcome.state)
            try:
                result = await decide(half, outcome)
            except TransactionConflict:  # which is in the log
                return
            refused = result.decision_error
            if result.decided or (isinstance(refused, RequestRejected) and refused.code not in RETRIED_CODES):
                return

    def tell_unknown(self, half: SentHalf, outcome: ListenerAnswer) -> None:
        """Send UNKNOWN one-way: Apache's brokers do not answer it, and every broker checks the transaction later."""
        address = self._endpoint.routes.master(half.result.queue.broker_name)
        channel = self._endpoint.ready(address) if address is not None else None
        if channel is not None:
            header = self.header(half, outcome)
            opaque = channel.next_opaque()
            channel.send(
                encode_request(RequestCode.END_TRANSACTION, opaque, header, one_way=True, remark=outcome.remark)
            )

    def _end_on(self, channel: ClientChannel, half: SentHalf, outcome: ListenerAnswer) -> Answer:
        opaque = channel.next_opaque()
        if outcome.remark is None:
            sent = half.result
            frame = self._frames_of(sent.queue).frame(
                opaque,
                sent.queue_offset,
                half.log_offset,
                _RESOLUTIONS[outcome.state],
                half.transaction_id,
                sent.transaction_id or half.transaction_id,
            )
        else:
            header = self.header(half, outcome)
            frame = encode_request(RequestCode.END_TRANSACTION, opaque, header, remark=outcome.remark)
        return channel.request(opaque, frame, self._config.send_timeout_ms)

    def _frames_of(self, queue: MessageQueue) -> EndFrames:
        frames = self._frames.get(queue)
        if frames is None:
            frames = self._frames[queue] = EndFrames(self._group, queue.topic, queue.broker_name)
        return frames

    def header(self, half: SentHalf, outcome: ListenerAnswer) -> EndTransaction:
        """What END_TRANSACTION says of a half message."""
        return EndTransaction(
            producer_group=self._group,
            tran_state_table_offset=half.result.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=int(outcome.state.resolution),
            from_transaction_check=False,
            msg_id=half.transaction_id,
            transaction_id=half.result.transaction_id or half.transaction_id,
            topic=half.message.topic,
            bname=half.result.queue.broker_name,
        )


def _view_of(half: SentHalf) -> MessageView:
    """A half message of ours as its listener would get it from the broker."""
    given, sent, born_ms = half.given, half.result, 0  # nobody kept when it was made
    return MessageView(
        topic=given.topic, body=given.body, properties={**given.properties}, flag=given.flag, queue=sent.queue,
        queue_offset=sent.queue_offset, message_id=half.transaction_id, offset_message_id=sent.offset_message_id,
        born_timestamp=born_ms, born_host="", store_timestamp=born_ms, store_host="", reconsume_times=0,
        log_offset=LogOffset(half.log_offset),
    )  # fmt: skip


def undecided(half: SentHalf, outcome: ListenerAnswer, error: GantryError | None) -> TransactionSendResult:
    """The result of a transaction whose end could not be delivered; check-back will settle it."""
    log.warning(
        "transaction %s is to be %s, but the broker did not confirm it: %s",
        half.transaction_id,
        outcome.state.name,
        error,
    )
    return result_of(half, outcome, decided=False, error=error)


def result_of(
    half: SentHalf, outcome: ListenerAnswer, *, decided: bool, error: GantryError | None = None
) -> TransactionSendResult:
    """What the sender of a half message hears in the end."""
    sent = half.result
    return TransactionSendResult(
        status=sent.status,
        message_id=sent.message_id,
        offset_message_id=sent.offset_message_id,
        queue=sent.queue,
        queue_offset=sent.queue_offset,
        transaction_id=sent.transaction_id or sent.message_id,
        region=sent.region,
        state=outcome.state,
        decided=decided,
        listener_error=outcome.error,
        decision_error=error,
    )
