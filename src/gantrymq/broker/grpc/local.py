"""The messages of the broker in whose process the door is: the port ``Messaging`` over its operations."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.grpc.messaging import BrokerTopic, GroupRules, LiteChange, Popped, Sent
from gantrymq.broker.grpc.outcome import Outcome
from gantrymq.broker.grpc.statuses import Rejected
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.end_by_id import TransactionIds
from gantrymq.broker.operations.giving_up import GivingUp
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.pop.acks import PopAcks
from gantrymq.broker.pop.lite.subscriptions import SUBSCRIPTIONS_MAX, LiteReader
from gantrymq.broker.pop.values import PopDelivery, PopRequest, PopResult, PopStatus, Renewed
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.stored import Stored
from gantrymq.broker.submission import Submission
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.message import flags, properties
from gantrymq.message.heartbeat import Heartbeat
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.message.tags import parse_tag_expression
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.bodies.lite import LiteAction
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.stored_message import scan

GIVEN_BACK_MS: Final = 1_000
"""When a message is visible again that nobody got."""
FIRST_ATTEMPTS: Final = 17
"""Deliveries to a group that does not exist yet: the first one and 16 more."""
NEW_GROUP: Final = GroupRules(in_order=False, attempts=FIRST_ATTEMPTS)
TAG: Final = "TAG"
POLLING_FULL: Final = "too many requests wait for messages of this group"

_NOT_OF_THE_CLIENT: Final = frozenset({Refusal.MESSAGE_UNKNOWN, Refusal.FAILED})
"""An end is refused so when the ids name no half message, or one that is not of this client. The second one is FAILED,
as Apache's broker has it, but it is no failure of the broker."""


class LocalMessaging:
    """See ``Messaging``."""

    def __init__(self, config: LiveConfig, operations: Operations) -> None:
        self._config = config
        self._operations = operations
        popping = self._popping = operations.consuming.popping
        self._giving_up = GivingUp(operations.sending.back, popping.dead_letters, popping.acks)

    @property
    def body_max(self) -> int:
        return self._config.topics.max_message_size

    @property
    def checks_types(self) -> bool:
        return self._config.topics.enable_topic_message_type_check

    @property
    def deliveries(self) -> PopAcks:
        return self._popping.acks

    async def topic(self, name: str) -> Sequence[BrokerTopic]:
        settings, identity = self._operations.administration.topics.get(name), self._config.identity
        return (BrokerTopic(identity.broker_name, settings, settings.perm & identity.broker_permission),)

    async def group(self, name: str) -> GroupRules:
        try:
            settings = self._operations.administration.groups.get(name)
        except Refused:
            return NEW_GROUP
        return rules_of(settings)

    async def join(self, client: GrpcClient, heartbeat: Heartbeat) -> None:
        done: Outcome[None] = Outcome()
        self._operations.members.heartbeat(client, heartbeat, client.language, 0, lambda: done.tell(None))
        await done.get()

    # Sending.

    async def send(self, client: GrpcClient, broker_name: str, submission: Submission, body: bytes) -> Sent:
        outcome: Outcome[Stored] = Outcome()
        self._operations.sending.one.send(client, submission, body, outcome.tell)
        stored = await outcome.get()
        return Sent(stored, stored.unique_key if submission.sys_flag & flags.PREPARED else "")

    async def topic_of(self, ids: TransactionIds, topic: str) -> str:
        with NAMING_A_TRANSACTION:
            return self._operations.ends_by_id.find(ids).topic

    async def end(
        self, client: GrpcClient, ids: TransactionIds, topic: str, resolution: Resolution, *, answers_check: bool
    ) -> None:
        outcome: Outcome[None] = Outcome()
        with NAMING_A_TRANSACTION:
            self._operations.ends_by_id.end(client, ids, resolution, outcome.tell, answers_check=answers_check)
            await outcome.get()

    async def recall(self, client: GrpcClient, topic: str, handle: str) -> str:
        outcome: Outcome[str] = Outcome()
        self._operations.sending.timers.recall(client, topic, handle, topic, outcome.tell)
        return await outcome.get()

    # Receiving.

    async def pop(
        self, receiver: Client, broker_name: str, wanted: PopRequest, reader: LiteReader | None
    ) -> Sequence[Popped]:
        outcome: Outcome[PopResult] = Outcome()

        def done(result: PopResult | Refused) -> None:
            if outcome.given_up:
                self._give_all_back(wanted, result)
            outcome.tell(result)

        at_once = (
            self._popping.requests.pop(receiver, wanted, done)
            if reader is None
            else self._popping.lite.pop(
                receiver, reader, wanted.topic, wanted.count, wanted.invisible_ms, wanted.poll_ms, wanted.attempt_id,
                done,
            )
        )  # fmt: skip
        try:
            result = at_once if at_once is not None else await outcome.get()
        except asyncio.CancelledError:
            self._give_all_back(wanted, outcome.told)  # it was there, and the call ended before it could take it
            raise
        if result.status is PopStatus.POLLING_FULL:
            raise Rejected(Code.TOO_MANY_REQUESTS, POLLING_FULL)
        return list(self._popped(wanted, result))

    def _give_all_back(self, wanted: PopRequest, result: PopResult | Refused | None) -> None:
        if isinstance(result, PopResult):
            for one in self._popped(wanted, result):
                with contextlib.suppress(Refused):
                    self.deliveries.change_invisible_time(one.delivery, GIVEN_BACK_MS, suspend=True, done=_ignored)

    def _popped(self, wanted: PopRequest, result: PopResult) -> Iterator[Popped]:
        """The messages, but for those of which only the hash of the tag is the same: nobody wants these."""
        wants, popped = tag_test(wanted), result.popped
        for batch in popped.batches:
            for stored in scan(batch.data):
                handle = ReceiptHandle(
                    batch.start_offset, popped.pop_time, wanted.invisible_ms, popped.revive_queue, batch.kind,
                    self._config.identity.broker_name, stored.queue_id, stored.queue_offset,
                )  # fmt: skip
                delivery = PopDelivery(wanted.group, batch.topic, batch.queue_id, stored.queue_offset, str(handle))
                if wants(stored.properties_text):
                    yield Popped(stored, delivery, handle, batch.counts.get(stored.queue_offset, 0))
                else:
                    self.deliveries.ack(delivery, _not_awaited)

    async def read_lite(self, reader: LiteReader, change: LiteChange) -> None:
        lite, topic, lite_topics = self._popping.lite, change.topic, change.lite_topics
        if change.action is LiteAction.PARTIAL_ADD:
            lite.subscribe(reader, topic, lite_topics, change.start)
        elif change.action is LiteAction.COMPLETE_ADD:
            lite.subscribe_exactly(reader, topic, lite_topics)
        elif change.action is LiteAction.PARTIAL_REMOVE:
            lite.unsubscribe(reader, topic, lite_topics)
        else:
            lite.leave(reader)

    async def forward(self, client: GrpcClient, delivery: PopDelivery, log_offset: int | None) -> None:
        outcome: Outcome[None] = Outcome()
        if not self._giving_up.give_up(client, delivery, outcome.tell):
            await outcome.get()


def rules_of(group: Group) -> GroupRules:
    """What its settings mean for this door."""
    quota = min(group.lite_client_quota, SUBSCRIPTIONS_MAX)
    return GroupRules(
        group.consume_message_orderly, group.retry_max_times + 1, SUBSCRIPTIONS_MAX if quota < 0 else quota
    )


def tag_test(wanted: PopRequest) -> Callable[[str], bool]:
    """Whether a message with these properties has a tag that is wanted; queues know the hashes of tags only."""
    by_tag = wanted.expression_type == TAG
    tags = frozenset(parse_tag_expression(wanted.expression or "*") if by_tag else ())
    return lambda text: not tags or properties.find(text, properties.TAGS) in tags


class _Naming:
    """An end of a transaction that is not this client's, or that nobody knows, is a mistake in the ids."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Refused) and error.reason in _NOT_OF_THE_CLIENT:
            raise Rejected(Code.INVALID_TRANSACTION_ID, str(error)) from error


NAMING_A_TRANSACTION: Final = _Naming()
"""One for all ends: it keeps nothing, and each end of a transaction comes through it."""


def _not_awaited(refused: Refused | None) -> None:
    """It comes again if this failed."""


def _ignored(outcome: Renewed | Refused) -> None:
    """It becomes visible by itself."""
