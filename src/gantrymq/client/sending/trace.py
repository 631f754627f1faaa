"""Message trace: records of what happened to each message are sent to a topic. ``mqadmin queryMsgTraceById`` reads it.

A trace message contains records, one after the other. Its KEYS are the ids and keys of the messages in the records.
Source: TraceDataEncoder, AsyncTraceDispatcher; docs/protocol.md#message-trace.
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

log = logging.getLogger("gantrymq.client")

FIELD, RECORD = "\x01", "\x02"
NO_KEYS: Final = "null"
"""Java's client writes this for no keys, because its reader loses an empty last field."""
NORMAL, HALF, COMMITTED, DELAYED, ORDERED = range(5)
"""Kinds of messages by their numbers (MessageType)."""
CONSUMED, FAILED = 0, 4
"""How consuming ended (ConsumeReturnType)."""
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


class TraceRecord(NamedTuple):
    """One record as text, and the keys under which it is found."""

    text: str
    keys: tuple[str, ...]


def record(*fields: object, keys: tuple[str, ...]) -> TraceRecord:
    words = ("true" if field is True else "false" if field is False else str(field) for field in fields)
    return TraceRecord(FIELD.join(words) + RECORD, keys)


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
        self._waiting: deque[TraceRecord] = deque(maxlen=MAX_WAITING)
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
            kind = HALF
        elif not values.keys().isdisjoint(properties.DELAYS):
            kind = DELAYED
        else:
            kind = ORDERED if properties.SHARDING_KEY in values else NORMAL
        entry = record(
            "Pub", begun_ms, result.region, self._group, self._topic_of(message), result.message_id, message.tags or "",
            values.get(properties.KEYS, ""), self._address(result.queue), len(message.body),
            self.now_ms() - begun_ms, kind, result.offset_message_id, result.status is SendStatus.SEND_OK,
            keys=(result.message_id, *message.keys),
        )  # fmt: skip
        self._waiting.append(entry)

    def ended(self, message: Message, sent: SendResult, state: LocalTransactionState) -> None:
        """Record that a transaction was ended."""
        entry = record(
            "EndTransaction", self.now_ms(), sent.region, self._group, self._topic_of(message), sent.message_id,
            message.tags or "", message.properties.get(properties.KEYS, ""), self._address(sent.queue), COMMITTED,
            sent.transaction_id or sent.message_id, STATES[state], False,
            keys=(sent.message_id, *message.keys),
        )  # fmt: skip
        self._waiting.append(entry)

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
            region = view.properties.get(properties.REGION, "DefaultRegion")
            words = view.properties.get(properties.KEYS, NO_KEYS)
            entry = record(
                "SubBefore", begun_ms, region, self._group, request, view.message_id, view.reconsume_times, words,
                keys=(view.message_id, *view.keys),
            )  # fmt: skip
            self._waiting.append(entry)

        def done(consumed: bool) -> None:
            now_ms = self.now_ms()
            for view in messages:
                words = view.properties.get(properties.KEYS, NO_KEYS)
                entry = record(
                    "SubAfter", request, view.message_id, (now_ms - begun_ms) // len(messages), consumed, words,
                    CONSUMED if consumed else FAILED, now_ms, self._group, keys=(view.message_id, *view.keys),
                )  # fmt: skip
                self._waiting.append(entry)

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

    async def _send(self, part: list[TraceRecord]) -> None:
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
