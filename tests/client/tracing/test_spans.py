"""What clients record with OpenTelemetry, against a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.aio import (
    ConsumeFromWhere,
    ConsumeStatus,
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageView,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
)
from gantrymq.client import sync
from gantrymq.client.listener import ListenerAnswer
from gantrymq.errors import RequestRejected
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_response
from gantrymq.runtime.clock import SystemClock

trace = pytest.importorskip("opentelemetry.trace")
pytest.importorskip("opentelemetry.sdk")

from tests.client.peer import cluster, run, until  # noqa: E402
from tests.client.real import server  # noqa: E402
from tests.client.tracing.recorded import Recorded, of, recording  # noqa: E402

FIRST = ConsumeFromWhere.FIRST_OFFSET


def test_a_message_is_one_trace_from_the_caller_to_the_listener(tmp_path: Path) -> None:
    async def test() -> None:
        got: list[MessageView] = []

        async def listener(messages: list[MessageView]) -> None:
            recorded.tracer.start_span("work").end()
            got.extend(messages)

        with recording() as recorded:
            async with server(tmp_path) as address:
                consumer = PushConsumer("CG", name_servers=address, listener=listener, from_where=FIRST)
                given = Message("T", "hello", tags="A", keys=["k1", "k2"])
                async with consumer.subscribe("T"), Producer("PG", name_servers=address) as producer:
                    with recorded.tracer.start_as_current_span("request"):
                        sent = await producer.send(given)
                    await until(lambda: bool(got))
        assert "traceparent" not in given.properties, "the caller's message is not changed"
        assert recorded.names() == ["process T", "request", "send T", "work"] and len(recorded.traces()) == 1
        send, process = recorded.one("send T"), recorded.one("process T")
        assert [recorded.parent(span) for span in (send, process, recorded.one("work"))] == [
            "request", "send T", "process T",
        ]  # fmt: skip
        assert recorded.linked(process) == ["send T"]
        assert (send.kind, process.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
        common = ("messaging.system", "messaging.destination.name", "messaging.message.id",
                  "messaging.rocketmq.message.type", "messaging.rocketmq.message.tag",
                  "messaging.rocketmq.message.keys", "messaging.rocketmq.namespace")  # fmt: skip
        for span in (send, process):
            assert of(span, *common) == ["rocketmq", "T", sent.message_id, "normal", "A", ("k1", "k2"), ""]
            assert of(span, "messaging.client.id")[0].startswith("127.0.0.1@")
        operation = ("messaging.operation.name", "messaging.operation.type")
        assert of(send, *operation, "gantrymq.producer.group") == ["send", "send", "PG"]
        assert of(send, "server.address")[0] == "127.0.0.1" and isinstance(of(send, "server.port")[0], int)
        model = "messaging.rocketmq.consumption_model"
        assert of(process, *operation, "messaging.consumer.group.name", model) == [
            "process", "process", "CG", "clustering",
        ]  # fmt: skip

    run(test)


def test_every_kind_of_message_says_what_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        soon_ms = SystemClock().wall_ms() + 60_000
        with recording() as recorded:
            async with server(tmp_path) as address, Producer("PG", name_servers=address, namespace="ns") as producer:
                await producer.send(Message("Level", "1", delay_level=3))
                await producer.send(Message("At", "1", deliver_at_ms=soon_ms))
                await producer.send_ordered(Message("Fifo", "1"), "customer-7")
                await producer.send_oneway(Message("Oneway", "1"))
        kind = "messaging.rocketmq.message.type"
        prefix = "messaging.rocketmq.message."
        level, at, fifo = (recorded.one(f"send {topic}") for topic in ("Level", "At", "Fifo"))
        assert of(level, kind, prefix + "delay_time_level") == ["delay", 3]
        assert of(at, kind, prefix + "delivery_timestamp") == ["delay", soon_ms]
        assert of(fifo, kind, prefix + "group") == ["fifo", "customer-7"]
        oneway = recorded.one("send Oneway")
        assert of(oneway, kind, "messaging.rocketmq.namespace", "messaging.destination.name") == [
            "normal", "ns", "Oneway",
        ]  # fmt: skip

    run(test)


def test_a_batch_has_a_context_for_each_message_and_consumers_link_to_them(tmp_path: Path) -> None:
    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path) as address:
                async with Producer("PG", name_servers=address) as producer:
                    sent = await producer.send_batch([Message("T", "1"), Message("T", "2")])
                async with PullConsumer("CG", name_servers=address) as reader:
                    found = (await reader.pull(sent.queue, 0)).messages
                    with reader.processing(found):
                        pass
                    with reader.processing(found[1]):
                        pass
        creates, send = recorded.named("create T"), recorded.one("send T")
        assert len(creates) == 2 and recorded.linked(send) == ["create T", "create T"]
        assert of(send, "messaging.batch.message_count", "messaging.message.id") == [2, None]
        assert [of(span, "messaging.message.id")[0] for span in creates] == sent.message_id.split(",")
        receive = recorded.one("receive T")
        assert recorded.linked(receive) == ["create T", "create T"] and receive.kind is trace.SpanKind.CLIENT
        assert of(receive, "messaging.batch.message_count", "messaging.operation.type") == [2, "receive"]
        both, second = recorded.named("process T")
        assert recorded.linked(both) == ["create T", "create T"] and both.parent is None
        assert second.parent is not None and second.parent.span_id == creates[1].context.span_id

    run(test)


def test_a_message_that_has_a_context_keeps_it(tmp_path: Path) -> None:
    async def test() -> None:
        mine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        with recording() as recorded:
            async with server(tmp_path) as address:
                async with Producer("PG", name_servers=address) as producer:
                    sent = await producer.send(Message("T", "1", properties={"traceparent": mine}))
                async with PullConsumer(name_servers=address) as reader:
                    (view,) = (await reader.pull(sent.queue, 0)).messages
        send = recorded.one("send T")
        assert view.properties["traceparent"] == mine and send.kind is trace.SpanKind.CLIENT
        assert [f"{link.context.span_id:016x}" for link in send.links] == ["b7ad6b7169203331"]

    run(test)


def test_failures_are_recorded_and_messages_that_go_back_are_settled(tmp_path: Path) -> None:
    async def test() -> None:
        calls: list[int] = []

        def listener(messages: list[MessageView]) -> ConsumeStatus | None:
            calls.append(messages[0].reconsume_times)
            if messages[0].body == b"raises":
                raise ValueError("not today")
            return ConsumeStatus.RECONSUME_LATER

        with recording() as recorded:
            async with server(tmp_path) as address:
                consumer = PushConsumer("CG", name_servers=address, listener=listener, from_where=FIRST)
                async with consumer.subscribe("T"), Producer("PG", name_servers=address, retries=0) as producer:
                    with pytest.raises(RequestRejected):
                        await producer.send(Message("T", "1"), MessageQueue("T", "broker-a", 99))
                    await producer.send(Message("T", "raises"))
                    await producer.send(Message("T", "later"))
                    await until(lambda: len(recorded.named("nack T")) == 2)
        failed = [span for span in recorded.named("send T") if not span.status.is_ok]
        (refused,) = failed
        assert (
            of(refused, "error.type") == ["gantrymq.errors.RequestRejected"] and refused.events[0].name == "exception"
        )
        errors = {of(span, "error.type")[0] for span in recorded.named("process T")}
        assert errors == {"ValueError", "RECONSUME_LATER"}
        for nack in recorded.named("nack T"):
            assert recorded.parent(nack) == "send T" and of(nack, "messaging.operation.type") == ["settle"]

    run(test)


def test_a_poll_is_received_processed_and_committed(tmp_path: Path) -> None:
    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
                await producer.send(Message("T", "1"))
                consumer = LitePullConsumer("CG", name_servers=address, from_where=FIRST, auto_commit=False)
                async with consumer.subscribe("T"):
                    while not (found := await consumer.poll()):
                        pass
                    with consumer.processing(found[0]):
                        recorded.tracer.start_span("work").end()
                    await consumer.commit()
        assert recorded.names() == ["commit", "process T", "receive T", "send T", "work"]
        assert recorded.parent(recorded.one("process T")) == "send T"
        assert recorded.parent(recorded.one("work")) == "process T"
        assert recorded.linked(recorded.one("receive T")) == ["send T"]

    run(test)


def test_what_a_simple_consumer_receives_is_processed_and_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
                await producer.send(Message("T", "1"))
                consumer = SimpleConsumer("CG", name_servers=address, from_where=FIRST)
                async with consumer.subscribe("T"):
                    (message,) = await consumer.receive(1, 60_000)
                    with consumer.processing(message):
                        recorded.tracer.start_span("work").end()
                    await consumer.ack(message)
        assert recorded.names() == ["ack T", "process T", "receive T", "send T", "work"]
        for name in ("process T", "ack T"):
            assert recorded.parent(recorded.one(name)) == "send T"
        assert recorded.parent(recorded.one("work")) == "process T"
        assert recorded.linked(recorded.one("receive T")) == ["send T"]

    run(test)


W3C = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("values", "parent"),
    [
        ({"TRACE_CONTEXT": W3C}, "b7ad6b7169203331"),
        ({"TRACE_CONTEXT": "something else"}, None),
        ({"TRACE_CONTEXT": W3C, "traceparent": W3C.replace("-b7", "-c8")}, "c8ad6b7169203331"),
        ({"TRACE_CONTEXT": W3C, "traceparent": "damaged"}, "b7ad6b7169203331"),
    ],
)
def test_the_trace_of_a_client_of_grpc_goes_on(values: dict[str, str], parent: str | None) -> None:
    from gantrymq.client.tracing.spans import context_of

    found = context_of(values)
    assert (None if found is None else f"{trace.get_current_span(found).get_span_context().span_id:016x}") == parent


class Listener:
    def __init__(self, state: LocalTransactionState) -> None:
        self.state = state

    async def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        trace.get_tracer("x")
        return self.state

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


@pytest.mark.parametrize("state", [LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK])
def test_a_transaction_is_one_trace(tmp_path: Path, state: LocalTransactionState) -> None:
    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path) as address:
                producer = TransactionProducer("PG", name_servers=address, listener=Listener(state))
                async with producer:
                    with recorded.tracer.start_as_current_span("request"):
                        result = await producer.send_in_transaction(Message("T", "1"))
        end = f"{state.name.lower()} T"
        assert recorded.names() == sorted([end, "half T", "local_transaction T", "request"])
        assert len(recorded.traces()) == 1
        half, local, ended = recorded.one("half T"), recorded.one("local_transaction T"), recorded.one(end)
        assert [recorded.parent(span) for span in (half, local, ended)] == ["request", "half T", "half T"]
        assert of(half, "messaging.rocketmq.message.type", "messaging.operation.type") == ["transaction", "send"]
        assert of(local, "gantrymq.transaction.state", "gantrymq.transaction.id") == [state.name, result.message_id]
        assert of(ended, "gantrymq.transaction.state", "messaging.operation.type") == [state.name, "settle"]

    run(test)


def test_both_traces_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path) as address:
                listener = Listener(LocalTransactionState.COMMIT)
                async with TransactionProducer("PG", name_servers=address, listener=listener, trace=True) as producer:
                    await producer.send(Message("T", "1"))
                    await producer.send_batch([Message("T", "2"), Message("T", "3")])
                    await producer.send_in_transaction(Message("T", "4"))
                async with PullConsumer(name_servers=address) as reader:
                    queues = await reader.queues("RMQ_SYS_TRACE_TOPIC")
                    views = [view for queue in queues for view in (await reader.pull(queue, 0)).messages]
        kinds = [text.split("\x01")[0] for view in views for text in view.body.decode().split("\x02") if text]
        assert sorted(kinds) == ["EndTransaction", "Pub", "Pub"]
        assert {"half T", "local_transaction T", "commit T"} < set(recorded.names())

    run(test)


def test_a_reply_belongs_to_the_trace_of_its_request(tmp_path: Path) -> None:
    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:

                async def listener(messages: list[MessageView]) -> None:
                    await producer.reply(messages[0], "pong")

                consumer = PushConsumer("CG", name_servers=address, listener=listener, from_where=FIRST)
                async with consumer.subscribe("Questions"):
                    await producer.request(Message("Questions", "ping"), timeout_ms=20_000)
        reply = recorded.one("send DefaultCluster_REPLY_TOPIC")
        assert recorded.parent(reply) == "process Questions" and len(recorded.traces()) == 1

    run(test)


def test_a_batch_for_a_listener_continues_no_trace_of_the_program_that_started_it(tmp_path: Path) -> None:
    async def test() -> None:
        got: list[MessageView] = []

        async def listener(messages: list[MessageView]) -> None:
            got.extend(messages)

        with recording() as recorded:
            async with server(tmp_path) as address:
                async with Producer("PG", name_servers=address) as producer:
                    await producer.send_batch([Message("T", "1"), Message("T", "2")])
                consumer = PushConsumer(
                    "CG", name_servers=address, listener=listener, from_where=FIRST, consume_batch_size=2
                )
                with recorded.tracer.start_as_current_span("start of the program"):
                    await consumer.subscribe("T").start()
                await until(lambda: len(got) == 2)
                await consumer.close()
        process = recorded.one("process T")
        assert process.parent is None and recorded.linked(process) == ["create T", "create T"]

    run(test)


def test_what_a_blocking_listener_does_belongs_to_its_local_transaction(tmp_path: Path) -> None:
    def send(address: str, recorded: Recorded) -> None:
        class InThread:
            def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
                recorded.tracer.start_span("row").end()
                raise ValueError("the database is away")

            def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
                return LocalTransactionState.UNKNOWN

        with (
            sync.TransactionProducer("PG", name_servers=address, listener=InThread()) as producer,
            recorded.tracer.start_as_current_span("request"),
        ):
            producer.send_in_transaction(Message("T", "1"))

    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path) as address:
                await asyncio.to_thread(send, address, recorded)
        row, local = recorded.one("row"), recorded.one("local_transaction T")
        assert (recorded.parent(row), recorded.parent(local)) == ("local_transaction T", "half T")
        assert of(local, "error.type") == ["ValueError"] and not local.status.is_ok
        assert recorded.parent(recorded.one("unknown T")) == "half T"
        assert recorded.parent(recorded.one("half T")) == "request"

    run(test)


def test_an_end_that_is_repeated_later_has_a_span_for_each_time() -> None:
    async def test() -> None:
        with recording() as recorded:
            async with cluster() as scripted:
                producer = TransactionProducer(
                    "PG", name_servers=scripted.address, listener=Listener(LocalTransactionState.COMMIT), end_retries=0
                )
                async with producer:
                    half = await producer.begin(Message("T", "1"))
                    busy = lambda _, command: encode_response(command, ResponseCode.SYSTEM_BUSY)  # noqa: E731
                    scripted.broker.next(RequestCode.END_TRANSACTION, busy)
                    outcome = ListenerAnswer(LocalTransactionState.COMMIT)
                    assert not (await producer.finish(half, outcome)).decided
                    await producer.finish_late(half, outcome)
        first, second = recorded.named("commit T")
        assert of(first, "error.type") == ["gantrymq.errors.RequestRejected"] and second.status.is_unset
        assert recorded.parent(second) == "half T"

    run(test)
