"""ReceiveMessage. Source: ReceiveMessageActivity, PopMessageResultFilterImpl; docs/grpc.md#receiving."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from gantrymq.access.operations import POP
from gantrymq.access.values import User
from gantrymq.broker.filtering.selection import SQL92
from gantrymq.broker.grpc.calls import Caller
from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.grpc.deliveries import HeldDeliveries
from gantrymq.broker.grpc.incoming import check_group, check_topic
from gantrymq.broker.grpc.lite import reader_of
from gantrymq.broker.grpc.local import GIVEN_BACK_MS, TAG
from gantrymq.broker.grpc.messaging import Messaging, Popped
from gantrymq.broker.grpc.outgoing import message_of, set_ms
from gantrymq.broker.grpc.settings import RECEIVE_BATCH
from gantrymq.broker.grpc.statuses import Rejected, ok
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.values import PopDelivery, PopRequest, Renewed
from gantrymq.broker.refusal import Refused
from gantrymq.grpc.definition_pb2 import Code, FilterExpression, FilterType, Message, Status
from gantrymq.grpc.service_pb2 import ReceiveMessageRequest, ReceiveMessageResponse
from gantrymq.message.message_types import TYPE_LITE
from gantrymq.runtime.clock import Clock

EARLY_SECONDS: Final = 0.3
"""So much before the client's deadline an empty answer leaves, so that it arrives in time."""
LONGEST_POLL_SECONDS: Final = 20.0
RENEWED_INVISIBLE_MS: Final = 60_000
"""Of messages that this door renews for their client."""
INVISIBLE_MS: Final = range(12 * 3600 * 1000 + 1)
"""What a client may ask for. Apache's proxy refuses less than 10 s."""
_OK: Final = ok()
_NOTHING: Final = Status(code=Code.MESSAGE_NOT_FOUND, message="no new message")


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

    def __init__(self, messaging: Messaging, clock: Clock, held: HeldDeliveries) -> None:
        self._messaging = messaging
        self._clock = clock
        self._held = held

    async def receive(
        self, caller: Caller, request: ReceiveMessageRequest
    ) -> AsyncGenerator[ReceiveMessageResponse, None]:
        """The status, then the messages, and last the time of delivery. A client that goes away in the meantime leaves
        its messages to others at once."""
        topic, group = check_topic(request.message_queue.topic.name), check_group(request.group.name)
        caller.demand(POP, (topic,), (group,))
        in_order = (await self._messaging.group(group)).in_order
        wanted = self._wanted(caller, request, topic, group, in_order=in_order)
        receiver = Receiver(caller.client)
        given: Sequence[Popped] = ()
        try:
            reader = await self._reader(caller, topic, group)
            given = await self._messaging.pop(receiver, request.message_queue.broker.name, wanted, reader)
            yield ReceiveMessageResponse(status=_OK if given else _NOTHING)
            for one in given:
                yield ReceiveMessageResponse(message=_delivered(one, wanted))
            last = ReceiveMessageResponse()
            set_ms(last.delivery_timestamp, self._clock.wall_ms())
            yield last
            if request.auto_renew:  # the client has them now: nothing is renewed that it may never have got
                for one in given:
                    self._held.hold(caller.client, one.delivery, one.handle)
            given = ()
        finally:
            receiver.alive = False
            for one in given:
                self._give_back(one.delivery)

    def _wanted(
        self, caller: Caller, request: ReceiveMessageRequest, topic: str, group: str, *, in_order: bool
    ) -> PopRequest:
        expression, kind = _selector(request.filter_expression)
        # A push consumer in order has a loop for each queue. Others get what is there, whatever queue they name: simple
        # consumers for Node.js (1.0.8) always name queue 0. Apache's proxy never looks at the queue.
        own_queue = in_order and request.auto_renew
        return PopRequest(
            group, topic, request.message_queue.id if own_queue else -1,
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

    async def _reader(self, caller: Caller, topic: str, group: str) -> LiteReader | None:
        """Who reads lite topics; None: messages of the topic itself are wanted."""
        places = await self._messaging.topic(topic)
        return reader_of(caller.client, group) if places[0].settings.message_type == TYPE_LITE else None

    def _give_back(self, delivery: PopDelivery) -> None:
        """Nobody got the message: it is visible again in a moment."""
        with contextlib.suppress(Refused):
            self._messaging.deliveries.change_invisible_time(delivery, GIVEN_BACK_MS, suspend=True, done=_ignored)


def _delivered(one: Popped, wanted: PopRequest) -> Message:
    message = message_of(one.message, wanted.topic)
    system = message.system_properties
    system.receipt_handle = f"{one.handle} {one.message.log_offset}"
    set_ms(system.invisible_duration, wanted.invisible_ms)
    if one.earlier:
        system.delivery_attempt = one.earlier + 1
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


def _ignored(outcome: Renewed | Refused) -> None:
    """It becomes visible by itself."""
