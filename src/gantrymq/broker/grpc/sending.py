"""SendMessage, EndTransaction and RecallMessage. Source: SendMessageActivity, EndTransactionActivity,
RecallMessageActivity; docs/grpc.md#sending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from gantrymq.access.operations import END, RECALL, SEND
from gantrymq.broker.grpc.calls import Caller, failed
from gantrymq.broker.grpc.incoming import check_topic, name_of_type, queue_of, submission_of
from gantrymq.broker.grpc.membership import Membership
from gantrymq.broker.grpc.messaging import BrokerTopic, Messaging, Sent
from gantrymq.broker.grpc.outcome import all_of
from gantrymq.broker.grpc.statuses import OF_STORED, REFUSED, Rejected, ok, together
from gantrymq.broker.operations.end_by_id import TransactionIds
from gantrymq.broker.operations.message_types import accepted
from gantrymq.broker.stored import Stored
from gantrymq.grpc.definition_pb2 import Code, Message, MessageType, Status, TransactionResolution, TransactionSource
from gantrymq.grpc.service_pb2 import (
    EndTransactionRequest,
    EndTransactionResponse,
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
)
from gantrymq.message.message_types import DELAY, FIFO, LITE, NORMAL, PRIORITY, TRANSACTION
from gantrymq.message.send_status import SendStatus
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.files.topics import PERM_WRITE, TopicConfig

RESOLUTIONS: Final = {
    TransactionResolution.COMMIT: Resolution.COMMIT,
    TransactionResolution.ROLLBACK: Resolution.ROLLBACK,
}
KINDS: Final = {
    MessageType.NORMAL: NORMAL,
    MessageType.FIFO: FIFO,
    MessageType.DELAY: DELAY,
    MessageType.TRANSACTION: TRANSACTION,
    MessageType.PRIORITY: PRIORITY,
    MessageType.LITE: LITE,
}

# Looking up a member of an enum of protobuf costs a microsecond, making a status two: once, and not with each call.
_OK: Final = ok()
_ENDED: Final = EndTransactionResponse(status=_OK)
_TRANSACTION: Final = MessageType.TRANSACTION
_SERVER_CHECK: Final = TransactionSource.SOURCE_SERVER_CHECK

ORDERED: Final = "FIFO"
"""The type of topics that take plain messages from clients of remoting, and none from those of gRPC: these always say
what they send, and without a message group the order would be lost silently. Apache's proxy refuses them, too."""


class SendingMethods:
    """What producers call."""

    def __init__(self, messaging: Messaging, membership: Membership) -> None:
        self._messaging = messaging
        self._membership = membership
        self._turn = 0
        """Which broker is next."""

    async def send(self, caller: Caller, request: SendMessageRequest) -> SendMessageResponse:
        """Each message has a result of its own."""
        messages = request.messages
        if not messages:
            raise Rejected(Code.MESSAGE_CORRUPTED, "the request has no message")
        topic = messages[0].topic.name
        if any(message.topic.name != topic for message in messages):
            raise Rejected(Code.MESSAGE_CORRUPTED, "the messages of one request must have one topic")
        caller.demand(SEND, (check_topic(topic),))
        answer = SendMessageResponse()
        entries = answer.entries
        await all_of([self._fill(entries.add(), caller, message) for message in messages])
        answer.status.CopyFrom(together([entry.status for entry in entries]))
        return answer

    async def _fill(self, entry: SendResultEntry, caller: Caller, message: Message) -> None:
        """Store a message, and say what became of it."""
        try:
            sent = await self._store(caller, message)
        except REFUSED as refused:
            entry.status.CopyFrom(failed(refused))
            return
        stored = sent.stored
        is_safe = stored.status is SendStatus.SEND_OK
        entry.status.CopyFrom(_OK if is_safe else _not_safe(stored))
        entry.message_id = stored.unique_key
        entry.offset = stored.queue_offset
        if sent.transaction_id:
            entry.transaction_id = sent.transaction_id
        if stored.recall_handle:
            entry.recall_handle = stored.recall_handle

    async def _store(self, caller: Caller, message: Message) -> Sent:
        submission = submission_of(message, self._messaging.body_max)
        system = message.system_properties
        places = await self._messaging.topic(submission.topic)
        self._check_type(places[0].settings, system.message_type)
        if system.HasField("message_group"):
            place, queue = place_of(system.message_group, places)
            submission = structs.replace(submission, queue_id=queue)
        elif system.HasField("lite_topic"):  # its order is that of one broker
            place, _ = place_of(system.lite_topic, places)
        else:
            place = self._next(places)
        if system.message_type == _TRANSACTION:
            await self._membership.sends_halves_to(caller.client, submission.topic)
        return await self._messaging.send(caller.client, place.broker_name, submission, message.body)

    def _next(self, places: Sequence[BrokerTopic]) -> BrokerTopic:
        """Brokers in turn. One that takes no writes says so itself, if there is no other."""
        if len(places) > 1:
            self._turn += 1
            places = [place for place in places if place.permission & PERM_WRITE] or places
        return places[self._turn % len(places)]

    def _check_type(self, topic: TopicConfig, message_type: MessageType) -> None:
        wanted = topic.message_type or None
        kinds = accepted(wanted, topic.topic_name, checked=self._messaging.checks_types)
        kind = KINDS.get(message_type, NORMAL)
        plain_among_ordered = wanted == ORDERED and kind == NORMAL and kinds is not None
        if plain_among_ordered or (kinds is not None and kind not in kinds):
            raise Rejected(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"the topic {topic.topic_name} takes messages of type {wanted}, not of type "
                f"{name_of_type(message_type)}",
            )

    async def end(self, caller: Caller, request: EndTransactionRequest) -> EndTransactionResponse:
        """Commit or roll back. The half message is found by its ids, at any age."""
        topic = check_topic(request.topic.name)
        if not request.transaction_id.strip():
            raise Rejected(Code.INVALID_TRANSACTION_ID, "the request names no transaction")
        ids = TransactionIds(request.message_id, request.transaction_id)
        answers_check = request.source == _SERVER_CHECK
        own_topic = topic
        if caller.guard is not None or topic not in caller.client.topics:
            # Looked for before the end, too: somebody is judged by its topic, or becomes a producer of it.
            own_topic = await self._messaging.topic_of(ids, topic)
        caller.demand(END, (own_topic,))
        if not answers_check:
            # Behind a restart the door does not know its producers, and some of them say their settings after minutes
            # only. This one has the ids, which nobody but the sender is told, and the right to send to the topic. That
            # is all it takes to be a producer of it.
            await self._membership.sends_halves_to(caller.client, own_topic)
        await self._messaging.end(
            caller.client, ids, topic, RESOLUTIONS.get(request.resolution, Resolution.UNKNOWN),
            answers_check=answers_check,
        )  # fmt: skip
        return _ENDED

    async def recall(self, caller: Caller, request: RecallMessageRequest) -> RecallMessageResponse:
        """Withdraw a delayed message."""
        topic = check_topic(request.topic.name)
        caller.demand(RECALL, (topic,))
        key = await self._messaging.recall(caller.client, topic, request.recall_handle)
        return RecallMessageResponse(status=ok(), message_id=key)


def place_of(group: str, places: Sequence[BrokerTopic]) -> tuple[BrokerTopic, int]:
    """The broker and the queue of all messages of a message group, among the queues that are written."""
    writable = [place for place in places if place.permission & PERM_WRITE] or places
    number = queue_of(group, max(1, sum(place.settings.write_queue_nums for place in writable)))
    for place in writable:
        if number < place.settings.write_queue_nums:
            return place, number
        number -= place.settings.write_queue_nums
    return writable[0], 0


def _not_safe(stored: Stored) -> Status:
    return Status(
        code=OF_STORED[stored.status],
        message=f"the message is stored, but not as safely as it should be: {stored.status.name}",
    )
