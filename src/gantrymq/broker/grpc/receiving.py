"""ReceiveMessage. Source: ReceiveMessageActivity, PopMessageResultFilterImpl; docs/grpc.md#receiving."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Final

from gantrymq.access.operations import POP
from gantrymq.access.values import User
from gantrymq.broker.grpc.calls import Caller
from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.grpc.deliveries import HeldDeliveries
from gantrymq.broker.grpc.incoming import check_group, check_topic
from gantrymq.broker.grpc.lite import reader_of
from gantrymq.broker.grpc.membership import SQL92, TAG
from gantrymq.broker.grpc.outcome import Outcome
from gantrymq.broker.grpc.outgoing import message_of, set_ms
from gantrymq.broker.grpc.routes import keeps_order
from gantrymq.broker.grpc.settings import RECEIVE_BATCH
from gantrymq.broker.grpc.statuses import Rejected, ok
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.values import Batch, PopDelivery, Popped, PopRequest, PopResult, PopStatus, Renewed
from gantrymq.broker.refusal import Refused
from gantrymq.grpc.definition_pb2 import Code, FilterExpression, FilterType, Message, Status
from gantrymq.grpc.service_pb2 import ReceiveMessageRequest, ReceiveMessageResponse
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.message_types import TYPE_LITE
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.message.tags import parse_tag_expression
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.clock import Clock

EARLY_SECONDS: Final = 0.3
"""So much before the client's deadline an empty answer leaves, so that it arrives in time."""
LONGEST_POLL_SECONDS: Final = 20.0
RENEWED_INVISIBLE_MS: Final = 60_000
"""Of messages that this door renews for their client."""
INVISIBLE_MS: Final = range(12 * 3600 * 1000 + 1)
"""What a client may ask for. Apache's proxy refuses less than 10 s."""
GIVEN_BACK_MS: Final = 1_000
NOTHING: Final = "no new message"


@dataclass(frozen=True, slots=True)
class Given:
    """A message on its way to a client."""

    message: Message
    delivery: PopDelivery
    handle: ReceiptHandle


class Receiver:
    """A client while one of its calls waits: messages are popped for it as long as that call lives."""

    def __init__(self, client: GrpcClient) -> None:
        self._client = client
        self.id: Final = client.id
        self.address: Final = client.address
        self.host: Final = client.host
        self.alive = True

    @property
    def user(self) -> User | None:
        return self._client.user

    @property
    def writable(self) -> bool:
        return self.alive and self._client.alive


class Receiving:
    """What consumers call to get messages."""

    def __init__(self, operations: Operations, clock: Clock, broker_name: str, held: HeldDeliveries) -> None:
        self._operations = operations
        self._requests = operations.consuming.popping.requests
        self._lite = operations.consuming.popping.lite
        self._acks = operations.consuming.popping.acks
        self._clock = clock
        self._broker_name = broker_name
        self._held = held

    async def receive(
        self, caller: Caller, request: ReceiveMessageRequest
    ) -> AsyncGenerator[ReceiveMessageResponse, None]:
        """The status, then the messages, and last the time of delivery. A client that goes away in the meantime leaves
        its messages to others at once."""
        topic, group = check_topic(request.message_queue.topic.name), check_group(request.group.name)
        caller.demand(POP, (topic,), (group,))
        wanted = self._wanted(caller, request, topic, group)
        receiver = Receiver(caller.client)
        given: list[Given] = []
        try:
            result = await self._pop(receiver, wanted, self._reader(caller, topic, group))
            if result.status is PopStatus.POLLING_FULL:
                raise Rejected(Code.TOO_MANY_REQUESTS, "too many requests wait for messages of this group")
            given = list(self._given(wanted, result.popped))
            yield ReceiveMessageResponse(status=ok() if given else Status(code=Code.MESSAGE_NOT_FOUND, message=NOTHING))
            for one in given:
                if request.auto_renew:
                    self._held.hold(caller.client, one.delivery, one.handle)
                yield ReceiveMessageResponse(message=one.message)
            last = ReceiveMessageResponse()
            set_ms(last.delivery_timestamp, self._clock.wall_ms())
            yield last
            given = []
        finally:
            receiver.alive = False
            for one in given:
                self._give_back(one.delivery)

    def _wanted(self, caller: Caller, request: ReceiveMessageRequest, topic: str, group: str) -> PopRequest:
        in_order = keeps_order(self._operations, group)
        expression, kind = _selector(request.filter_expression)
        return PopRequest(
            group, topic, request.message_queue.id if in_order else -1,
            max(1, min(request.batch_size, RECEIVE_BATCH)), self._invisible_ms(request),
            int(_poll_seconds(caller, request) * 1000), 0, False, expression, kind, in_order,
            request.attempt_id if request.HasField("attempt_id") else None,
        )  # fmt: skip

    def _invisible_ms(self, request: ReceiveMessageRequest) -> int:
        if request.auto_renew:
            return RENEWED_INVISIBLE_MS
        asked = request.invisible_duration
        ms = int(asked.seconds * 1000 + asked.nanos // 1_000_000)
        if ms not in INVISIBLE_MS or not request.HasField("invisible_duration"):
            raise Rejected(Code.ILLEGAL_INVISIBLE_TIME, f"invisible_duration is {ms} ms; use 0 s to 12 h")
        return ms

    def _reader(self, caller: Caller, topic: str, group: str) -> LiteReader | None:
        """Who reads lite topics; None: messages of the topic itself are wanted."""
        lite = self._operations.administration.topics.get(topic).message_type == TYPE_LITE
        return reader_of(caller.client, group) if lite else None

    async def _pop(self, receiver: Receiver, wanted: PopRequest, reader: LiteReader | None) -> PopResult:
        outcome = Outcome[PopResult]()

        def done(result: PopResult | Refused) -> None:
            if outcome.given_up:
                self._give_all_back(wanted, result)
            outcome.tell(result)

        at_once = (
            self._requests.pop(receiver, wanted, done)
            if reader is None
            else self._lite.pop(
                receiver, reader, wanted.topic, wanted.count, wanted.invisible_ms, wanted.poll_ms, wanted.attempt_id,
                done,
            )
        )  # fmt: skip
        try:
            return at_once if at_once is not None else await outcome.get()
        except asyncio.CancelledError:
            self._give_all_back(wanted, outcome.told)  # it was there, and the call ended before it could take it
            raise

    def _give_all_back(self, wanted: PopRequest, result: PopResult | Refused | None) -> None:
        if isinstance(result, PopResult):
            for one in self._given(wanted, result.popped):
                self._give_back(one.delivery)

    def _given(self, wanted: PopRequest, popped: Popped) -> Iterator[Given]:
        """The messages, but for those of which only the hash of the tag is the same: nobody wants these."""
        by_tag = wanted.expression_type == TAG
        tags = frozenset(parse_tag_expression(wanted.expression or "*") if by_tag else ())
        for batch in popped.batches:
            for stored in scan(batch.data):
                handle = ReceiptHandle(
                    batch.start_offset, popped.pop_time, wanted.invisible_ms, popped.revive_queue, batch.kind,
                    self._broker_name, stored.queue_id, stored.queue_offset,
                )  # fmt: skip
                delivery = PopDelivery(wanted.group, batch.topic, batch.queue_id, stored.queue_offset, str(handle))
                if tags and properties.find(stored.properties_text, properties.TAGS) not in tags:
                    self._acks.ack(delivery, _not_awaited)
                else:
                    yield Given(_delivered(stored, handle, wanted, batch), delivery, handle)

    def _give_back(self, delivery: PopDelivery) -> None:
        """Nobody got the message: it is visible again in a moment."""
        with contextlib.suppress(Refused):
            self._acks.change_invisible_time(delivery, GIVEN_BACK_MS, suspend=True, done=_ignored)


def _delivered(stored: StoredMessage, handle: ReceiptHandle, wanted: PopRequest, batch: Batch) -> Message:
    message = message_of(stored, wanted.topic)
    system = message.system_properties
    system.receipt_handle = f"{handle} {stored.log_offset}"
    set_ms(system.invisible_duration, wanted.invisible_ms)
    if earlier := batch.counts.get(stored.queue_offset):
        system.delivery_attempt = earlier + 1
    return message


def _selector(asked: FilterExpression) -> tuple[str, str]:
    return asked.expression or "*", SQL92 if asked.type == FilterType.SQL else TAG


def _poll_seconds(caller: Caller, request: ReceiveMessageRequest) -> float:
    """How long the request may be held: as long as the client says, and not past its deadline."""
    asked = request.long_polling_timeout
    seconds = asked.seconds + asked.nanos / 1e9 if request.HasField("long_polling_timeout") else LONGEST_POLL_SECONDS
    if caller.remaining_s is not None:
        seconds = min(seconds, caller.remaining_s - EARLY_SECONDS)
    return max(0.0, min(seconds, 3 * LONGEST_POLL_SECONDS))


def _not_awaited(refused: Refused | None) -> None:
    """It comes again if this failed."""


def _ignored(outcome: Renewed | Refused) -> None:
    """It becomes visible by itself."""
