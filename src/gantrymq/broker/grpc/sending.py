"""SendMessage, EndTransaction and RecallMessage. Source: SendMessageActivity, EndTransactionActivity,
RecallMessageActivity; docs/grpc.md#sending.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import structs

from gantrymq.access.operations import END, RECALL, SEND
from gantrymq.broker.grpc.calls import Caller, failed
from gantrymq.broker.grpc.incoming import check_topic, name_of_type, queue_of, submission_of
from gantrymq.broker.grpc.membership import Membership
from gantrymq.broker.grpc.outcome import Outcome
from gantrymq.broker.grpc.statuses import OF_STORED, REFUSED, Rejected, ok, together
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.end_by_id import TransactionIds
from gantrymq.broker.operations.message_types import accepted
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.refusal import Refusal, Refused
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
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.files.topics import TopicConfig

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


_NOT_OF_THE_CLIENT: Final = frozenset({Refusal.MESSAGE_UNKNOWN, Refusal.FAILED})
"""An end is refused so when the ids name no half message, or one that is not of this client. The second one is FAILED,
as Apache's broker has it, but it is no failure of the broker."""


class SendingMethods:
    """What producers call."""

    def __init__(self, config: LiveConfig, operations: Operations, membership: Membership) -> None:
        self._config = config
        self._operations = operations
        self._membership = membership

    async def send(self, caller: Caller, request: SendMessageRequest) -> SendMessageResponse:
        """Each message has a result of its own."""
        if not request.messages:
            raise Rejected(Code.MESSAGE_CORRUPTED, "the request has no message")
        if len({message.topic.name for message in request.messages}) > 1:
            raise Rejected(Code.MESSAGE_CORRUPTED, "the messages of one request must have one topic")
        caller.demand(SEND, (check_topic(request.messages[0].topic.name),))
        entries = await asyncio.gather(*(self._entry(caller, message) for message in request.messages))
        return SendMessageResponse(status=together([entry.status for entry in entries]), entries=entries)

    async def _entry(self, caller: Caller, message: Message) -> SendResultEntry:
        try:
            stored = await self._store(caller, message)
        except REFUSED as refused:
            return SendResultEntry(status=failed(refused))
        status = ok() if OF_STORED[stored.status] == Code.OK else _not_safe(stored)
        is_half = message.system_properties.message_type == MessageType.TRANSACTION
        return SendResultEntry(
            status=status, message_id=stored.unique_key, transaction_id=stored.unique_key if is_half else "",
            offset=stored.queue_offset, recall_handle=stored.recall_handle or "",
        )  # fmt: skip

    async def _store(self, caller: Caller, message: Message) -> Stored:
        submission = submission_of(message, self._config.topics.max_message_size)
        system = message.system_properties
        topic = self._operations.administration.topics.get(submission.topic)
        self._check_type(topic, system.message_type)
        if system.HasField("message_group"):
            queue = queue_of(system.message_group, max(1, topic.write_queue_nums))
            submission = structs.replace(submission, queue_id=queue)
        if system.message_type == MessageType.TRANSACTION:
            await self._membership.sends_halves_to(caller.client, submission.topic)
        outcome = Outcome[Stored]()
        self._operations.sending.one.send(caller.client, submission, message.body, outcome.tell)
        return await outcome.get()

    def _check_type(self, topic: TopicConfig, message_type: MessageType) -> None:
        wanted = topic.message_type or None
        checked = self._config.topics.enable_topic_message_type_check
        kinds = accepted(wanted, topic.topic_name, checked=checked)
        if kinds is not None and KINDS.get(message_type, NORMAL) not in kinds:
            raise Rejected(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"the topic {topic.topic_name} takes messages of type {wanted}, not of type "
                f"{name_of_type(message_type)}",
            )

    async def end(self, caller: Caller, request: EndTransactionRequest) -> EndTransactionResponse:
        """Commit or roll back. The half message is found by its ids, at any age."""
        check_topic(request.topic.name)
        if not request.transaction_id.strip():
            raise Rejected(Code.INVALID_TRANSACTION_ID, "the request names no transaction")
        ends, ids = self._operations.ends_by_id, TransactionIds(request.message_id, request.transaction_id)
        outcome = Outcome[None]()
        try:
            caller.demand(END, (ends.find(ids).topic,))
            ends.end(
                caller.client, ids, RESOLUTIONS.get(request.resolution, Resolution.UNKNOWN), outcome.tell,
                answers_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
            )  # fmt: skip
            await outcome.get()
        except Refused as refused:
            if refused.reason not in _NOT_OF_THE_CLIENT:
                raise
            raise Rejected(Code.INVALID_TRANSACTION_ID, str(refused)) from refused
        return EndTransactionResponse(status=ok())

    async def recall(self, caller: Caller, request: RecallMessageRequest) -> RecallMessageResponse:
        """Withdraw a delayed message."""
        topic = check_topic(request.topic.name)
        caller.demand(RECALL, (topic,))
        outcome = Outcome[str]()
        self._operations.sending.timers.recall(caller.client, topic, request.recall_handle, topic, outcome.tell)
        return RecallMessageResponse(status=ok(), message_id=await outcome.get())


def _not_safe(stored: Stored) -> Status:
    return Status(
        code=OF_STORED[stored.status],
        message=f"the message is stored, but not as safely as it should be: {stored.status.name}",
    )
