"""Through the gRPC door: a client of RocketMQ 5 with sockets of its own, and a bridge into the cluster."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Final

import grpc.aio

from gantrymq.broker.grpc.statuses import CODES
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import (
    Code,
    LiteSubscriptionAction,
    Message,
    MessageType,
    Status,
    TransactionResolution,
)
from gantrymq.message.receipt_handle import parse
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.addresses import split_address
from gantrymq.testing import LocalCluster
from gantrymq.testing.local.door import Half
from tests.broker.doors.asked import asks
from tests.broker.doors.who import Delivery, Who, on
from tests.support.bridge import bridge
from tests.support.grpc_client import GrpcClient, consumer, message, resource

_REFUSALS: Final[dict[int, Refusal]] = {
    **{code: refusal for refusal, code in CODES.items()},
    Code.UNAUTHORIZED: Refusal.NOT_PERMITTED,
    Code.FORBIDDEN: Refusal.NOT_PERMITTED,
    Code.MESSAGE_BODY_EMPTY: Refusal.MESSAGE_ILLEGAL,
    Code.MESSAGE_BODY_TOO_LARGE: Refusal.MESSAGE_ILLEGAL,
    Code.INVALID_TRANSACTION_ID: Refusal.CONFLICT,
    Code.BAD_REQUEST: Refusal.PARAMETER_INVALID,
}
_RESOLUTIONS: Final = {
    LocalTransactionState.COMMIT: TransactionResolution.COMMIT,
    LocalTransactionState.ROLLBACK: TransactionResolution.ROLLBACK,
    LocalTransactionState.UNKNOWN: TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}


class ByGrpc:
    """A producer and a consumer in one. Its producer group is the name of the topic."""

    name = "grpc"
    cannot: Final = {
        "administration.": "clients of RocketMQ 5 administrate nothing",
        "consuming.popping.acks.batch_ack": "each entry of a request has its own result, so each is asked for",
        "consuming.popping.assignments": "members of a group pop from all queues",
        "consuming.popping.requests.notification": "the protocol has no such question",
        "consuming.popping.requests.peek": "the protocol has no such question",
        "consuming.popping.requests.polling_count": "the protocol has no such question",
        "consuming.positions": "Apache's proxy has no offsets either",
        "consuming.pulls": "Apache's proxy has no pulls either",
        "consuming.queries": "the protocol has no such question",
        "members.check_subscription": "the protocol has no such question",
        "members.client_ids": "members of a group share no queues",
        "members.lock": "an orderly group is blocked by the broker",
        "members.unlock": "an orderly group is blocked by the broker",
        "members.unregister": "a client leaves with NotifyClientTermination, as if its connection ended",
        "routes.": "the route is that of this broker",
        "sending.back.dead_letter": "ForwardMessageToDeadLetterQueue asks for it: tests/broker/grpc/test_door.py",
        "sending.back.send_back": "the protocol has no such question",
        "sending.batches": "each message of a request has its own result, so each is asked for",
        "sending.halves": "each message of a request has its own result, so each is asked for",
        "sending.replies": "the protocol has no request and reply",
        "sending.timers.check_point": "clients administrate nothing",
        "sending.timers.waiting": "clients administrate nothing",
        "transactions.ends.": "the protocol has ids instead of offsets",
        "transactions.ends_many": "the protocol ends one transaction at a time",
    }

    def __init__(self, cluster: LocalCluster, who: Who) -> None:
        self._cluster = cluster
        self._address = next(door.address for door in cluster.broker.doors if door.name == self.name)
        self._who = who

    # Sending.

    @asks("sending.one.send")
    def send_batch(self, topic: str, bodies: Sequence[bytes]) -> int:
        entries = self._sent(*(message(topic, body) for body in bodies))
        return int(entries[0].offset)

    @asks("sending.one.send")
    def half(self, topic: str, body: bytes) -> Half:
        (entry,) = self._sent(message(topic, body, message_type=MessageType.TRANSACTION))
        return Half(entry.transaction_id, entry.offset, -1)

    def _sent(self, *messages: Message) -> Sequence[service.SendResultEntry]:
        answer = self._with(lambda client: client.send(*messages))
        for entry in answer.entries:
            _checked(entry.status)
        _checked(answer.status)
        return answer.entries  # type: ignore[no-any-return]

    @asks("sending.timers.recall")
    def recall(self, topic: str, handle: str) -> str:
        request = service.RecallMessageRequest(topic=resource(topic), recall_handle=handle)
        answer = self._with(lambda client: client.call("RecallMessage", request, service.RecallMessageResponse))
        _checked(answer.status)
        return str(answer.message_id)

    @asks("ends_by_id.find", "ends_by_id.end")
    def end_by_id(self, half: Half, state: LocalTransactionState) -> None:
        _checked(
            self._with(
                lambda client: client.end("orders", half.transaction_id, half.transaction_id, _RESOLUTIONS[state])
            )
        )

    # Consuming.

    @asks("members.heartbeat")
    def join(self, group: str, topic: str) -> None:
        async def joined(client: GrpcClient) -> None:
            async with client.telemetry(consumer(group, topic)) as answer:
                _checked(answer.status)

        self._with(joined)

    @asks("consuming.popping.requests.pop")
    def pop(self, group: str, topic: str) -> list[Delivery]:
        status, found = self._with(lambda client: client.receive(topic, group, seconds=0, invisible=60, count=32))
        if status.code != Code.MESSAGE_NOT_FOUND:
            _checked(status)
        return [
            Delivery(
                one.body, one.system_properties.queue_id, one.system_properties.queue_offset,
                one.system_properties.receipt_handle,
            )
            for one in found
        ]  # fmt: skip

    @asks("sending.one.send")
    def lite_send(self, topic: str, lite_topic: str, body: bytes) -> None:
        self._sent(message(topic, body, message_type=MessageType.LITE, lite_topic=lite_topic))

    @asks("consuming.popping.lite.subscribe")
    def lite_subscribe(self, group: str, topic: str, lite_topic: str) -> None:
        self._lite(LiteSubscriptionAction.PARTIAL_ADD, group, topic, lite_topic)

    @asks("consuming.popping.lite.subscribe_exactly")
    def lite_subscribe_exactly(self, group: str, topic: str, lite_topic: str) -> None:
        self._lite(LiteSubscriptionAction.COMPLETE_ADD, group, topic, lite_topic)

    @asks("consuming.popping.lite.unsubscribe")
    def lite_unsubscribe(self, group: str, topic: str, lite_topic: str) -> None:
        self._lite(LiteSubscriptionAction.PARTIAL_REMOVE, group, topic, lite_topic)

    @asks("consuming.popping.lite.leave")
    def lite_leave(self, group: str, topic: str) -> None:
        self._lite(LiteSubscriptionAction.COMPLETE_REMOVE, group, topic)

    def _lite(self, action: LiteSubscriptionAction, group: str, topic: str, *lite_topics: str) -> None:
        _checked(self._with(lambda client: client.sync_lite(action, topic, *lite_topics, group=group)))

    @asks("consuming.popping.lite.pop")
    def lite_pop(self, group: str, topic: str) -> list[tuple[bytes, int]]:
        status, found = self._with(lambda client: client.receive(topic, group, seconds=0, invisible=60, count=32))
        if status.code != Code.MESSAGE_NOT_FOUND:
            _checked(status)
        return [(one.body, one.system_properties.queue_offset) for one in found]

    @asks("consuming.popping.acks.ack")
    def ack(self, group: str, topic: str, one: Delivery) -> None:
        entries = [service.AckMessageEntry(message_id="x", receipt_handle=one.handle)]
        request = service.AckMessageRequest(group=resource(group), topic=resource(topic), entries=entries)
        _checked(self._with(lambda client: client.call("AckMessage", request, service.AckMessageResponse)).status)

    @asks("consuming.popping.acks.change_invisible_time")
    def change_invisible_time(self, group: str, topic: str, one: Delivery, invisible_ms: int) -> int:
        request = service.ChangeInvisibleDurationRequest(
            group=resource(group), topic=resource(topic), receipt_handle=one.handle
        )
        request.invisible_duration.seconds = invisible_ms // 1000
        answer = self._with(
            lambda client: client.call("ChangeInvisibleDuration", request, service.ChangeInvisibleDurationResponse)
        )
        _checked(answer.status)
        return parse(answer.receipt_handle).invisible_time

    def _with(self, work: Any) -> Any:
        """What ``work`` gives, with a client of this address, on the loop of the cluster."""

        async def done() -> Any:
            key = None if self._who.user is None else (self._who.user, self._who.secret)
            async with (
                bridge(self._cluster._network.of(None), split_address(self._address)[1]) as address,
                grpc.aio.insecure_channel(address) as channel,
            ):
                doing: Coroutine[Any, Any, Any] = work(GrpcClient(channel, self._who.client_id, key))
                return await doing

        return on(self._cluster, done())


def _checked(status: Status) -> None:
    if status.code not in (Code.OK, Code.MULTIPLE_RESULTS):
        raise Refused(_REFUSALS.get(status.code, Refusal.FAILED), status.message)
