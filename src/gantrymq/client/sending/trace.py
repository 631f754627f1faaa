"""Message trace: records of what happened to each message are sent to a topic. ``mqadmin queryMsgTraceById`` and the
console read them. Source: AsyncTraceDispatcher; the records themselves: ``protocol.trace_records``.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from gantrymq.client.config import ProducerConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.client.listener import is_async
from gantrymq.client.message_listener import MessageListener, read_answer
from gantrymq.client.results import SendResult, SendStatus
from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.tracing.watch import NO_ACT, Act, Watch
from gantrymq.errors import GantryError
from gantrymq.message import properties, system_topics
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.trace_records import CONSUMED, FAILED, TracedMessage, TraceKind, TraceRecord, encode

log = logging.getLogger("gantrymq.client")

STATES: Final = {
    LocalTransactionState.COMMIT: "COMMIT_MESSAGE",
    LocalTransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    LocalTransactionState.UNKNOWN: "UNKNOW",
}
FLUSH_INTERVAL_MS: Final = 500
MAX_WAITING: Final = 2048
"""Records that may wait; of more, the oldest are lost (AsyncTraceDispatcher's queue)."""
RECORDS_PER_MESSAGE: Final = 100
TIMEOUT_MS: Final = 5_000
GROUP: Final = "_INNER_TRACE_PRODUCER-"


class _Waiting(NamedTuple):
    """One record as text, and the keys under which it is found."""

    text: str
    keys: tuple[str, ...]


def _waiting(record: TraceRecord, keys: Sequence[str]) -> _Waiting:
    return _Waiting(encode(record), (record.message_id, *keys))


class _Pub(Act):
    """A message on its way. One that fails leaves no record."""

    __slots__ = ("_begun_ms", "_half", "_message", "_trace")

    def __init__(self, trace: MessageTrace, message: Message, half: bool) -> None:
        self._trace = trace
        self._message = message
        self._half = half
        self._begun_ms = trace.now_ms()

    def done(self, result: SendResult | None = None) -> None:
        if result is not None:
            self._trace.sent(self._message, result, self._begun_ms, self._half)


class MessageTrace(Watch):
    """Collects the records of one client, from any thread, and sends them every half second. Records that cannot be
    sent are lost, because tracing must not delay the messages themselves."""

    def __init__(self, endpoint: Endpoint, group: str, topic: str) -> None:
        self._endpoint = endpoint
        self._group = group
        self._topic = topic
        self._waiting: deque[_Waiting] = deque(maxlen=MAX_WAITING)
        self._config = ProducerConfig(name_servers=endpoint.config.name_servers)
        self._delivery = Delivery(endpoint, self._config)

    def now_ms(self) -> int:
        return self._endpoint.clock.wall_ms()

    def sending(self, message: Message, *, half: bool = False) -> tuple[Message, Act]:
        return message, _Pub(self, message, half)

    def ending(self, half: Message, sent: SendResult, state: LocalTransactionState) -> Act:
        self.ended(half, sent, state)
        return NO_ACT

    def sent(self, message: Message, result: SendResult, begun_ms: int, half: bool) -> None:
        """Record that a message was stored."""
        values = message.properties
        if half:
            kind = TracedMessage.HALF
        elif not values.keys().isdisjoint(properties.DELAYS):
            kind = TracedMessage.DELAYED
        else:
            kind = TracedMessage.ORDERED if properties.SHARDING_KEY in values else TracedMessage.NORMAL
        record = TraceRecord(
            kind=TraceKind.PUB, **self._named(message, result), time_ms=begun_ms, size=len(message.body),
            cost_ms=self.now_ms() - begun_ms, message_kind=kind, offset_message_id=result.offset_message_id,
            good=result.status is SendStatus.SEND_OK,
        )  # fmt: skip
        self._waiting.append(_waiting(record, message.keys))

    def ended(self, message: Message, sent: SendResult, state: LocalTransactionState) -> None:
        """Record that a transaction was ended."""
        record = TraceRecord(
            kind=TraceKind.END_TRANSACTION, **self._named(message, sent), time_ms=self.now_ms(),
            message_kind=TracedMessage.COMMITTED, transaction_id=sent.transaction_id or sent.message_id,
            state=STATES[state],
        )  # fmt: skip
        self._waiting.append(_waiting(record, message.keys))

    def _named(self, message: Message, sent: SendResult) -> dict[str, Any]:
        """The fields that name a message and its broker."""
        return {
            "message_id": sent.message_id, "region": sent.region, "group": self._group,
            "topic": self._topic_of(message), "tags": message.tags or "",
            "keys": message.properties.get(properties.KEYS, ""),
            "broker": self._address(sent.queue),
        }  # fmt: skip

    def _topic_of(self, message: Message) -> str:
        return with_namespace(self._endpoint.config.namespace, message.topic)

    def _address(self, queue: MessageQueue) -> str:
        return self._endpoint.routes.master(queue.broker_name) or ""

    # The calls of a consumer's listener.

    def listener(self, inner: MessageListener) -> MessageListener:
        """A listener that calls ``inner``, and records the beginning and the end of each call."""
        if is_async(inner):

            async def traced(messages: list[MessageView]) -> Any:
                done = self._begin(messages)
                try:
                    answer = inner(list(messages))
                    answer = await answer if inspect.isawaitable(answer) else answer
                except BaseException:
                    done(False)
                    raise
                done(read_answer(answer) is None)
                return answer

            return traced

        def traced_in_thread(messages: list[MessageView]) -> Any:
            done = self._begin(messages)
            try:
                answer = inner(list(messages))
            except BaseException:
                done(False)
                raise
            done(read_answer(answer) is None)
            return answer

        return traced_in_thread

    def _begin(self, messages: Sequence[MessageView]) -> Callable[[bool], None]:
        begun_ms = self.now_ms()
        request = self._endpoint.rng.token(16).hex().upper()
        for view in messages:
            record = TraceRecord(
                kind=TraceKind.SUB_BEFORE, message_id=view.message_id, time_ms=begun_ms, group=self._group,
                region=view.properties.get(properties.REGION, "DefaultRegion"), request_id=request,
                deliveries_before=view.reconsume_times, keys=view.properties.get(properties.KEYS, ""),
            )  # fmt: skip
            self._waiting.append(_waiting(record, view.keys))

        def done(consumed: bool) -> None:
            now_ms = self.now_ms()
            for view in messages:
                record = TraceRecord(
                    kind=TraceKind.SUB_AFTER, message_id=view.message_id, time_ms=now_ms, group=self._group,
                    request_id=request, cost_ms=(now_ms - begun_ms) // len(messages), good=consumed,
                    keys=view.properties.get(properties.KEYS, ""), context_code=CONSUMED if consumed else FAILED,
                )  # fmt: skip
                self._waiting.append(_waiting(record, view.keys))

        return done

    # Sending.

    async def flush(self) -> None:
        """Send the records that wait."""
        while self._waiting:
            part = [self._waiting.popleft() for _ in range(min(RECORDS_PER_MESSAGE, len(self._waiting)))]
            try:
                await self._send(part)
            except GantryError as error:
                log.info("%d records of the message trace are lost: %s", len(part), error)

    async def _send(self, part: list[_Waiting]) -> None:
        # A dict keeps the order, and every key once.
        keys = " ".join(dict.fromkeys(key for one in part for key in one.keys if key))
        unique_key = self._endpoint.next_unique_key()
        text = properties.encode({properties.KEYS: keys, properties.UNIQ_KEY: unique_key, properties.WAIT: "true"})
        body = "".join(one.text for one in part).encode()

        def frame(queue: MessageQueue, opaque: int) -> bytes:
            header = SendMessage(
                producer_group=GROUP + self._group,
                topic=self._topic,
                default_topic=system_topics.AUTO_CREATE,
                default_topic_queue_nums=self._config.default_topic_queue_nums,
                queue_id=queue.queue_id,
                sys_flag=0,
                born_timestamp=self.now_ms(),
                flag=0,
                properties=text,
                reconsume_times=0,
                unit_mode=False,
                batch=False,
                bname=queue.broker_name,
            )
            return encode_request(RequestCode.SEND_MESSAGE_V2, opaque, header, body)

        deadline = self._endpoint.clock.monotonic() + TIMEOUT_MS / 1000
        await self._delivery.deliver(self._topic, unique_key, frame, deadline, None)
