"""Spans of OpenTelemetry for what a client does, by the semantic conventions for messaging.

| span                         | kind     | parent                                                |
|------------------------------|----------|-------------------------------------------------------|
| ``send T``                   | PRODUCER | the caller's span                                     |
| ``create T`` (of a batch)    | PRODUCER | the caller's span                                     |
| ``send T`` (of a batch)      | CLIENT   | the caller's span; links to the ``create T``          |
| ``half T``                   | PRODUCER | the caller's span, or ``local_transaction``           |
| ``local_transaction T``      | INTERNAL | the half                                              |
| ``local_transaction``        | INTERNAL | the caller's span (gantrymq.sql)                      |
| ``commit T``, ``rollback T`` | CLIENT   | the half                                              |
| ``check T``                  | SERVER   | the half, also in another process                     |
| ``receive T``                | CLIENT   | the caller's span; links to the messages              |
| ``process T``                | CONSUMER | the message's span, if there is one message; links    |
| ``nack T``, ``ack T``        | CLIENT   | the message's span                                    |
| ``commit``                   | CLIENT   | the caller's span                                     |

A message carries the context of the PRODUCER span in its properties ``traceparent`` and ``tracestate`` (or as the
program's propagators say), where OpenTelemetry's Java agent has it, too. A message that has a context already keeps it.
Clients of gRPC may have it in TRACE_CONTEXT instead, which is read if there is nothing else.

A span for several messages links to the context of each, and has no message's context as its parent.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.namespaces import without_namespace
from gantrymq.client.listener import ListenerAnswer, is_async
from gantrymq.client.message_listener import MessageListener, read_answer
from gantrymq.client.results import SendResult, TransactionSendResult
from gantrymq.client.tracing import attributes as names
from gantrymq.client.tracing.watch import Act, Check, LocalTransaction, Watch
from gantrymq.message import properties
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.addresses import split_address

INSTRUMENTATION: Final = "gantrymq"
SETTLED: Final = {
    LocalTransactionState.COMMIT: "commit",
    LocalTransactionState.ROLLBACK: "rollback",
    LocalTransactionState.UNKNOWN: "unknown",
}
LATER: Final = "RECONSUME_LATER"
"""``error.type`` of a listener that asked for another delivery without an exception."""
_NS_PER_MS: Final = 1_000_000
_W3C: Final = TraceContextTextMapPropagator()
NOBODY: Final = Context()
"""The parent of a span that continues nothing. The current context of a client's own task is that of the code which
started the client."""


def context_of(values: Mapping[str, str]) -> Context | None:
    """The context that a message carries in its properties; None when it carries none."""
    found = propagate.extract(values, context=Context())
    if trace.get_current_span(found).get_span_context().is_valid:
        return found
    of_grpc = values.get(properties.TRACE_CONTEXT)
    if of_grpc is None:
        return None
    found = _W3C.extract({properties.TRACE_PARENT: of_grpc}, context=Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def _links(messages: Sequence[Message | MessageView]) -> list[Link]:
    found = (context_of(message.properties) for message in messages)
    return [Link(trace.get_current_span(one).get_span_context()) for one in found if one is not None]


def note_error(span: Span, error: BaseException) -> None:
    """Record why an operation failed."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    span.record_exception(error)
    span.set_attribute(names.ERROR_TYPE, name)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def fail(span: Span, error: BaseException) -> None:
    """Record why an operation failed, and end its span."""
    note_error(span, error)
    span.end()


class _SpanAct(Act):
    """``finish`` adds what is known in the end."""

    __slots__ = ("_finish", "_span")

    def __init__(self, span: Span, finish: Callable[[Span, SendResult | None], None] | None = None) -> None:
        self._span = span
        self._finish = finish

    def done(self, result: SendResult | None = None) -> None:
        if self._finish is not None:
            self._finish(self._span, result)
        self._span.end()

    def failed(self, error: BaseException) -> None:
        fail(self._span, error)


class _CheckSpan(Check):
    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def within(self, method: Callable[..., Any]) -> Callable[..., Any]:
        return _within(self._span, method)

    def answered(self, answer: ListenerAnswer) -> None:
        self._span.set_attribute(names.TRANSACTION_STATE, answer.state.name)
        if answer.error is not None:
            note_error(self._span, answer.error)
        elif answer.remark is not None:
            self._span.add_event(answer.remark)
        self._span.end()

    def failed(self, error: BaseException) -> None:
        fail(self._span, error)


class _LocalSpan(LocalTransaction):
    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def current(self) -> AbstractContextManager[object]:
        current: AbstractContextManager[object] = trace.use_span(
            self._span, record_exception=False, set_status_on_exception=False
        )
        return current

    def ended(self, answer: ListenerAnswer) -> None:
        if not self._span.is_recording():
            return
        self._span.set_attribute(names.TRANSACTION_STATE, answer.state.name)
        if answer.remark is not None:
            self._span.set_status(Status(StatusCode.ERROR, answer.remark))
        self._span.end()


def _within(span: Span, method: Callable[..., Any]) -> Callable[..., Any]:
    """``method``, called while ``span`` is the current one; nothing ends the span."""
    current = functools.partial(trace.use_span, span, record_exception=False, set_status_on_exception=False)
    if is_async(method):

        @functools.wraps(method)
        async def inside(*arguments: Any) -> Any:
            with current():
                return await method(*arguments)

        return inside

    @functools.wraps(method)
    def inside_thread(*arguments: Any) -> Any:
        with current():
            return method(*arguments)

    return inside_thread


class Spans(Watch):
    """The spans of one client."""

    def __init__(self, provider: Any, endpoint: Endpoint, group: str, *, broadcasting: bool = False) -> None:
        """``group``: as brokers know it."""
        self._tracer = provider.get_tracer(INSTRUMENTATION)
        self._endpoint = endpoint
        self._namespace = endpoint.config.namespace
        self._common = {names.SYSTEM: names.ROCKETMQ, names.NAMESPACE: self._namespace or ""}
        group = without_namespace(self._namespace, group)
        self._producer = {**self._common, names.PRODUCER_GROUP: group}
        model = "broadcasting" if broadcasting else "clustering"
        self._consumer = {**self._common, names.CONSUMER_GROUP: group, names.CONSUMPTION_MODEL: model}

    # Sending.

    def sending(self, message: Message, *, half: bool = False) -> tuple[Message, Act]:
        custom = _links([message])
        kind = SpanKind.CLIENT if custom else SpanKind.PRODUCER
        span = self._start(
            "half" if half else "send", "send", message.topic, kind, self._producer,
            of=self._of(message.properties), links=custom,
        )  # fmt: skip
        if half:
            span.set_attribute(names.MESSAGE_TYPE, "transaction")
        return (message if custom else _carrying(message, span)), _SpanAct(span, self._stored)

    def sending_batch(self, messages: Sequence[Message]) -> tuple[list[Message], Act]:
        topic = messages[0].topic
        sent: list[Message] = []
        for message in messages:
            if context_of(message.properties) is None:
                of = self._of(message.properties)
                create = self._start("create", "create", topic, SpanKind.PRODUCER, self._producer, of=of)
                message = _carrying(message, create)
                create.end()
            sent.append(message)
        of = {names.BATCH_COUNT: len(sent)}
        span = self._start("send", "send", topic, SpanKind.CLIENT, self._producer, of=of, links=_links(sent))
        return sent, _SpanAct(span, self._stored_batch)

    def _of(self, values: Mapping[str, str]) -> dict[str, Any]:
        return dict(names.of_message(values, self._endpoint.clock.wall_ms()))

    def _stored(self, span: Span, result: SendResult | None) -> None:
        values = self._place(result)
        if result is not None:
            values[names.MESSAGE_ID] = result.message_id
        span.set_attributes(values)

    def _stored_batch(self, span: Span, result: SendResult | None) -> None:
        span.set_attributes(self._place(result))

    def _place(self, result: SendResult | None) -> dict[str, Any]:
        """Between whom it was, as far as that is known."""
        values: dict[str, Any] = {names.CLIENT_ID: self._endpoint.client_id}
        address = None if result is None else self._endpoint.routes.master(result.queue.broker_name)
        if address is not None:
            values[names.SERVER_ADDRESS], values[names.SERVER_PORT] = split_address(address)
        return values

    # Transactions.

    def executing(self, half: Message, method: Callable[..., Any]) -> Callable[..., Any]:
        if is_async(method):

            @functools.wraps(method)
            async def traced(*arguments: Any) -> Any:
                with self._executed(half) as span:
                    return _note_state(span, await method(*arguments))

            return traced

        @functools.wraps(method)
        def traced_in_thread(*arguments: Any) -> Any:
            with self._executed(half) as span:
                answer = method(*arguments)
                # An awaitable comes from a listener that hides its ``async def``; what it does is not in the span.
                return answer if inspect.isawaitable(answer) else _note_state(span, answer)

        return traced_in_thread

    def _executed(self, half: Message) -> AbstractContextManager[Span]:
        span = self._start(
            "local_transaction", None, half.topic, SpanKind.INTERNAL, self._producer,
            of={names.TRANSACTION_ID: half.transaction_id or ""}, parent=context_of(half.properties),
        )  # fmt: skip
        return _ending(span)

    def local_transaction(self) -> LocalTransaction:
        return _LocalSpan(self._start("local_transaction", None, "", SpanKind.INTERNAL, self._producer))

    def ending(self, half: Message, sent: SendResult, state: LocalTransactionState) -> Act:
        span = self._start(
            SETTLED[state], "settle", half.topic, SpanKind.CLIENT, self._producer, parent=context_of(half.properties),
            of={names.MESSAGE_ID: sent.message_id, names.TRANSACTION_ID: sent.transaction_id or sent.message_id,
                names.TRANSACTION_STATE: state.name, names.MESSAGE_TYPE: "transaction"},
        )  # fmt: skip
        return _SpanAct(span, self._ended)

    def _ended(self, span: Span, result: SendResult | None) -> None:
        self._stored_batch(span, result)
        error = result.decision_error if isinstance(result, TransactionSendResult) else None
        if error is not None:
            note_error(span, error)

    def checking(self, half: MessageView) -> Check:
        topic = without_namespace(self._namespace, half.topic)
        of = {**self._of(half.properties), names.MESSAGE_ID: half.message_id, names.MESSAGE_TYPE: "transaction",
              names.TRANSACTION_ID: half.transaction_id or "", names.CLIENT_ID: self._endpoint.client_id}  # fmt: skip
        parent = context_of(half.properties) or NOBODY
        return _CheckSpan(self._start("check", "check", topic, SpanKind.SERVER, self._producer, of=of, parent=parent))

    # Consuming.

    def listener(self, inner: MessageListener) -> MessageListener:
        if is_async(inner):

            async def traced(messages: list[MessageView]) -> Any:
                with self._processing(messages, NOBODY) as span:
                    answer = inner(messages)
                    return _note_answer(span, await answer if inspect.isawaitable(answer) else answer)

            return traced

        def traced_in_thread(messages: list[MessageView]) -> Any:
            with self._processing(messages, NOBODY) as span:
                return _note_answer(span, inner(messages))

        return traced_in_thread

    def processing(self, messages: Sequence[MessageView]) -> AbstractContextManager[Span]:
        return self._processing(messages, None)

    def _processing(self, messages: Sequence[MessageView], otherwise: Context | None) -> AbstractContextManager[Span]:
        """``otherwise``: the parent when there is no single message with a context."""
        parent = (context_of(messages[0].properties) if len(messages) == 1 else None) or otherwise
        return _ending(self._of_views("process", "process", SpanKind.CONSUMER, messages, parent))

    def received(self, messages: Sequence[MessageView], begun_ms: int) -> None:
        self._of_views("receive", "receive", SpanKind.CLIENT, messages, None, batch=True, begun_ms=begun_ms).end()

    def settling(self, operation: str, topic: str, messages: Sequence[MessageView] = ()) -> Act:
        if messages:
            parent = (context_of(messages[0].properties) if len(messages) == 1 else None) or NOBODY
            return _SpanAct(self._of_views(operation, "settle", SpanKind.CLIENT, messages, parent))
        topic = without_namespace(self._namespace, topic)
        return _SpanAct(self._start(operation, "settle", topic, SpanKind.CLIENT, self._consumer))

    def _of_views(
        self, name: str, kind: str, span_kind: SpanKind, messages: Sequence[MessageView], parent: Context | None,
        *, batch: bool = False, begun_ms: int | None = None,
    ) -> Span:  # fmt: skip
        """``batch``: the operation is for several messages, even if there is one."""
        topics = {without_namespace(self._namespace, view.topic) for view in messages}
        of: dict[str, Any] = {names.CLIENT_ID: self._endpoint.client_id}
        if batch or len(messages) > 1:
            of[names.BATCH_COUNT] = len(messages)
        else:
            (view,) = messages
            of.update(names.of_message(view.properties, view.born_timestamp))
            of[names.MESSAGE_ID] = view.message_id
            of[names.RECONSUME_TIMES] = view.reconsume_times
        topic = topics.pop() if len(topics) == 1 else ""
        links = _links(messages)
        return self._start(name, kind, topic, span_kind, self._consumer, of=of, parent=parent, links=links,
                           begun_ms=begun_ms)  # fmt: skip

    def _start(
        self, name: str, kind: str | None, topic: str, span_kind: SpanKind, common: Mapping[str, Any], *,
        of: Mapping[str, Any] | None = None, parent: Context | None = None, links: Sequence[Link] = (),
        begun_ms: int | None = None,
    ) -> Span:  # fmt: skip
        """``parent``: None: the context of the caller."""
        values: dict[str, Any] = {**common, **(of or {}), names.OPERATION_NAME: name}
        if kind is not None:
            values[names.OPERATION_TYPE] = kind
        if topic:
            values[names.DESTINATION] = topic = without_namespace(self._namespace, topic)
        return self._tracer.start_span(
            f"{name} {topic}" if topic else name, context=parent, kind=span_kind, attributes=values, links=links,
            start_time=None if begun_ms is None else begun_ms * _NS_PER_MS,
        )  # fmt: skip


def _carrying(message: Message, span: Span) -> Message:
    """A copy of the message with the context of the span."""
    carrier = dict(message.properties)
    propagate.inject(carrier, context=trace.set_span_in_context(span))
    return message.with_properties(carrier)


@contextlib.contextmanager
def _ending(span: Span) -> Iterator[Span]:
    """The span is the current one inside, and ends with it."""
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield span
    except BaseException as error:
        note_error(span, error)
        raise
    finally:
        context.detach(token)
        span.end()


def _note_state(span: Span, answer: Any) -> Any:
    state = answer.state if isinstance(answer, ListenerAnswer) else answer
    if isinstance(state, LocalTransactionState):
        span.set_attribute(names.TRANSACTION_STATE, state.name)
    return answer


def _note_answer(span: Span, answer: Any) -> Any:
    if read_answer(answer) is not None:
        span.set_attribute(names.ERROR_TYPE, LATER)
        span.set_status(Status(StatusCode.ERROR, "the listener asked for another delivery"))
    return answer
