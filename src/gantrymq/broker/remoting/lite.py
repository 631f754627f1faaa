"""Lite topics as frames: LITE_SUBSCRIPTION_CTL (200071), POP_LITE_MESSAGE (200070), and NOTIFY_UNSUBSCRIBE_LITE
(200073), which the broker sends. Acknowledgements and changes of the invisible time name the lite topic in a field.

A proxy sends these for its clients, so a client is known by the id in the request, and not by its connection. Source:
LiteSubscriptionCtlProcessor, PopLiteMessageProcessor of 5.5.0; docs/protocol.md#lite-topics.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.broker.pop.lite.pops import LitePops
from gantrymq.broker.pop.lite.starts import LiteStart, StartKind
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.requests import TOO_LATE_MS
from gantrymq.broker.pop.values import PopResult, PopStatus
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.pop import RESPONSE_CODES
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.message.receipt_handle import ORDERLY
from gantrymq.protocol.bodies.lite import LiteAction, LiteSubscriptionItem, LiteSubscriptions, OffsetOption
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.lite import PopLiteMessage, PopLiteMessageAnswer
from gantrymq.protocol.pop_texts import lite_order_counts
from gantrymq.runtime.clock import Clock

_POLICIES: Final = {0: StartKind.LAST, 1: StartKind.MIN, 2: StartKind.MAX}
_KINDS: Final = {"OFFSET": StartKind.OFFSET, "TAIL_N": StartKind.TAIL, "TIMESTAMP": StartKind.TIME}


class LiteHandler:
    """Requests of clients, and of proxies for theirs."""

    def __init__(self, pops: LitePops, clock: Clock) -> None:
        self._pops = pops
        self._clock = clock
        self._sessions: dict[LiteReader, ClientSession] = {}
        """Through which connection a reader subscribed last."""
        pops.evicted.append(self._evicted)

    def subscribe(self, session: ClientSession, command: Command) -> bytes:
        """LITE_SUBSCRIPTION_CTL. The entries before one that is refused count."""
        entries = LiteSubscriptions.of_request(command.body).subscription_set if command.body else []
        if not entries:
            raise Refused(Refusal.CONFLICT, "LiteSubscriptionCtlRequestBody is empty.")
        for entry in entries:
            self._take(session, entry)
        return encode_response(command, ResponseCode.SUCCESS)

    def _take(self, session: ClientSession, entry: LiteSubscriptionItem) -> None:
        reader = _reader(session, entry.client_id, entry.group)
        if entry.action == LiteAction.PARTIAL_ADD:
            self._pops.subscribe(reader, entry.topic, entry.lite_topic_set, _start_of(entry.offset_option))
        elif entry.action == LiteAction.COMPLETE_ADD:
            self._pops.subscribe_exactly(reader, entry.topic, entry.lite_topic_set)
        elif entry.action == LiteAction.PARTIAL_REMOVE:
            self._pops.unsubscribe(reader, entry.topic, entry.lite_topic_set)
        else:
            self._pops.leave(reader)
        if self._pops.subscriptions.of(reader):
            self._sessions[reader] = session
        else:
            self._sessions.pop(reader, None)

    def pop(self, session: ClientSession, command: Command) -> bytes | None:
        """POP_LITE_MESSAGE."""
        header = command.header(PopLiteMessage)
        waited = self._clock.wall_ms() - header.born_time if header.born_time > 0 else 0
        if header.poll_time - waited < -TOO_LATE_MS:
            raise Refused(Refusal.WAIT_OVER, "pop message is timeout too much")
        result = self._pops.pop(
            session, _reader(session, header.client_id, header.consumer_group), header.topic, header.max_msg_num,
            header.invisible_time, header.poll_time - max(0, waited), header.attempt_id,
            partial(self._popped, session, command, header),
        )  # fmt: skip
        return None if result is None else _answer(command, header, result)

    def _popped(
        self, session: ClientSession, command: Command, header: PopLiteMessage, outcome: PopResult | Refused
    ) -> None:
        frame = rejected(command, outcome) if isinstance(outcome, Refused) else _answer(command, header, outcome)
        session.answer(command, frame, held=True)

    def _evicted(self, reader: LiteReader, lite_topic: str) -> None:
        session = self._sessions.get(reader)
        if session is not None:
            session.lite_topic_taken(reader.group, reader.client.partition("\n")[0], lite_topic)


def _reader(session: ClientSession, client_id: str, group: str) -> LiteReader:
    """As the door for gRPC names it: who takes the id of another user's client gets nothing of it."""
    user = session.user
    return LiteReader(f"{client_id}\n{'' if user is None else user.name}", group)


def _start_of(option: OffsetOption | None) -> LiteStart | None:
    if option is None:
        return None
    if option.type in _KINDS:
        return LiteStart(_KINDS[option.type], option.value)
    return LiteStart(_POLICIES.get(option.value, StartKind.LAST))


def _answer(command: Command, asked: PopLiteMessage, result: PopResult) -> bytes:
    """Clients find the place of each message in its properties, so the texts of other pops are not needed."""
    batches = result.popped.batches
    header = PopLiteMessageAnswer(
        pop_time=result.popped.pop_time, invisible_time=asked.invisible_time, revive_qid=ORDERLY,
        order_count_info=lite_order_counts((batch.offsets, batch.counts) for batch in batches),
    )  # fmt: skip
    remark = "FOUND" if result.status is PopStatus.FOUND else "NO_MESSAGE_IN_QUEUE"
    body = b"".join(batch.data for batch in batches)
    return encode_response(command, RESPONSE_CODES[result.status], header, body, remark=remark)
