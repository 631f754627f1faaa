"""What is published arrives as it was published, where and when it should."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from faststream import FastStream
from faststream.specification import AsyncAPI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from gantrymq import tracing
from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.faststream import GantryResponse, GantryRoute, GantryRouter, TestGantryBroker
from gantrymq.faststream.annotations import GantryMessage
from gantrymq.faststream.opentelemetry import GantryTelemetryMiddleware
from gantrymq.faststream.prometheus import GantryPrometheusMiddleware
from gantrymq.testing import LocalCluster
from tests.faststream.playing import PATIENCE_S, play, quiet, soon


def test_options_and_headers_arrive(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, got = quiet(), asyncio.Queue[Any]()
        publisher = broker.publisher("orders", tags="eu", headers={"kind": "order", "number": 7, "empty": ""})

        @broker.subscriber("orders", group="shipping")
        async def ship(body: Any, message: GantryMessage) -> None:
            got.put_nowait((body, message))

        await broker.start()
        await publisher.publish({"id": 1}, keys=["o-1", "c-7"], correlation_id="because")
        body, message = await soon(got.get())
        assert (body, message.correlation_id, message.raw_message.tags) == ({"id": 1}, "because", "eu")
        assert message.headers == {
            "kind": "order", "number": "7", "correlation_id": "because", "content-type": "application/json",
        }  # fmt: skip
        assert message.raw_message.keys == ["o-1", "c-7"]
        own = GantryResponse("third", tags="us", headers={"kind": "own"}, correlation_id="other")
        results = await broker.publish_batch("first", b"second", own, topic="orders", tags="eu")
        assert {message_id for result in results for message_id in result.message_id.split(",")}
        found = {body: message for body, message in [await soon(got.get()) for _ in range(3)]}
        assert found["third"].raw_message.tags == "us" and found["third"].headers["kind"] == "own"
        assert found[b"second"].raw_message.tags == "eu" and found["third"].correlation_id == "other"
        for empty in ("", b"", None):
            await broker.publish(empty, "orders")
            body, message = await soon(got.get())
            assert (body or b"", message.body) in ((b"", b""), ("", b""))
        await broker.stop()

    play(test)


def test_what_rocketmq_does_not_take_is_named(gantry: LocalCluster) -> None:
    async def test() -> None:
        async with quiet() as broker:
            with pytest.raises(MessageIllegal, match="'KEYS' is reserved"):
                await broker.publish("x", "orders", headers={"KEYS": "x"})
            with pytest.raises(ConfigError, match="headers must be a dictionary"):
                await broker.publish("x", "orders", headers=["kind"])  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match="order_key must be a text, not 7"):
                await broker.publish("x", "orders", order_key=7)  # type: ignore[typeddict-item]
            with pytest.raises(MessageIllegal, match="topic"):
                await broker.publish("x", "or ders")
            with pytest.raises(MessageIllegal):
                await broker.publish("x", "orders", delay_level=1, delay_ms=5)

    play(test)


@pytest.mark.gantry(broker={"enablePropertyFilter": True})
def test_tags_and_sql_select_on_the_broker(gantry: LocalCluster) -> None:
    async def test() -> None:
        again, got = quiet(), asyncio.Queue[tuple[str, str]]()

        @again.subscriber("orders", group="tags", tags="eu || us")
        async def by_tags(order: str) -> None:
            got.put_nowait(("tags", order))

        @again.subscriber("orders", group="sql", sql="price > 10 AND TAGS = 'asia'")
        async def by_sql(order: str) -> None:
            got.put_nowait(("sql", order))

        await again.start()
        for order, tag, price in (("o-1", "eu", 1), ("o-2", "asia", 1), ("o-3", "asia", 11), ("o-4", "us", 20)):
            await again.publish(order, "orders", tags=tag, headers={"price": price})
        found = {await soon(got.get()) for _ in range(3)}
        assert found == {("tags", "o-1"), ("sql", "o-3"), ("tags", "o-4")}
        await again.stop()
        assert got.empty()

    play(test)


@pytest.mark.gantry(virtual_time=True)
def test_a_delayed_message_comes_later(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, got = quiet(), []

        @broker.subscriber("orders", group="shipping")
        async def ship(order: str) -> None:
            got.append(order)

        await broker.start()
        await broker.publish("later", "orders", delay_ms=60_000)
        await broker.publish("level", "orders", delay_level=2)
        await gantry.advance_async(4)
        assert got == []
        await gantry.advance_async(3)
        assert got == ["level"]
        await gantry.advance_async(60)
        assert got == ["level", "later"]
        await broker.stop()

    play(test)


def test_messages_one_by_one(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker = quiet()
        subscriber = broker.subscriber("orders", group="reader")
        await broker.start()
        await broker.publish_batch(1, 2, 3, topic="orders")
        first = await subscriber.get_one(timeout=30)
        assert first is not None
        found = [await first.decode()]
        async for message in subscriber:
            found.append(await message.decode())
            if len(found) == 3:
                break
        assert found == [1, 2, 3]
        await broker.stop()
        await broker.start()
        assert await subscriber.get_one(timeout=0.2) is None  # they were consumed
        await broker.stop()

    play(test)


def test_a_handler_that_answers_by_reply_to_and_by_request(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, got = quiet(), asyncio.Queue[Any]()

        @broker.subscriber("ask", group="answers")
        async def answer(number: int) -> GantryResponse:
            return GantryResponse(number + 1, headers={"by": "answers"})

        @broker.subscriber("replies", group="asker")
        async def reply(number: int, message: GantryMessage) -> None:
            got.put_nowait((number, message.headers["by"]))

        await broker.start()
        await broker.publish(1, "ask", reply_to="replies")
        assert await soon(got.get()) == (2, "answers")
        response = await broker.request(5, "ask", timeout=30)
        assert (await response.decode(), response.headers["by"]) == (6, "answers")
        with pytest.raises(TimeoutError):
            await broker.request(5, "nobody-reads-this", timeout=0.3)
        await broker.stop()

    play(test)


def test_in_the_test_client_a_group_gets_a_message_once_and_tags_select() -> None:
    async def test() -> None:
        broker, got = quiet(), []

        async def ship(order: str) -> None:
            got.append(order)

        for _ in range(2):
            broker.subscriber("orders", group="shipping")(ship)

        @broker.subscriber("orders", group="eu", tags="eu || us")
        async def eu(order: str) -> None:
            got.append(f"eu {order}")

        async with TestGantryBroker(broker) as tested:
            await tested.publish("o-1", "orders")
            assert got == ["o-1"]
            await tested.publish("o-2", "orders", tags="eu")
            assert sorted(got) == ["eu o-2", "o-1", "o-2"]

    play(test)


def test_the_test_client_with_a_real_broker_reads_from_it(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker = quiet()

        @broker.subscriber("orders", group="shipping")
        async def ship(order: str) -> None: ...

        async with TestGantryBroker(broker, with_real=True) as real:
            await real.publish("o-1", "orders")
            await ship.wait_call(PATIENCE_S)
            ship.mock.assert_called_once_with("o-1")

    play(test)
    assert [message.body for message in gantry.messages("orders")] == [b"o-1"]


def test_the_asyncapi_page_names_topic_group_and_server() -> None:
    async def handle(order: dict[str, str]) -> None:
        """Ships orders."""

    broker = quiet()
    broker.include_router(GantryRouter("shop-", [GantryRoute(handle, "orders", "shipping")]))
    app = FastStream(broker, specification=AsyncAPI())
    page = app.schema.to_specification().to_jsonable()
    [channel] = page["channels"].values()
    assert channel["address"] == "shop-orders"
    assert "Ships orders." in str(page) and "Consumer group: shipping" in str(page)
    assert page["servers"]["development"]["protocol"] == "rocketmq"
    assert page["servers"]["development"]["host"] == "127.0.0.1:9876"


def test_spans_of_faststream_and_of_the_clients_are_one_trace(
    gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing.use(provider)

    async def test() -> None:
        broker = quiet(middlewares=[GantryTelemetryMiddleware(tracer_provider=provider)])
        done = asyncio.Event()

        @broker.subscriber("orders", group="shipping")
        async def ship(order: str) -> None:
            done.set()

        await broker.start()
        await broker.publish("o-1", "orders")
        await soon(done.wait())
        await broker.stop()

    try:
        play(test)
    finally:
        tracing.use(None)
    found = spans.get_finished_spans()
    assert {"orders publish", "orders process"} <= {span.name for span in found}
    assert len({span.context.trace_id for span in found}) == 1, [(span.name, span.context.trace_id) for span in found]
    assert len(found) > 3


def test_metrics_count_what_was_published_and_processed(gantry: LocalCluster) -> None:
    registry = CollectorRegistry()

    async def test() -> None:
        broker = quiet(middlewares=[GantryPrometheusMiddleware(registry=registry, app_name="shop")])
        done = asyncio.Event()

        @broker.subscriber("orders", group="shipping", batch=True)
        async def ship(orders: list[str]) -> None:
            done.set()

        await broker.start()
        await broker.publish("o-1", "orders")
        await soon(done.wait())
        await broker.stop()

    play(test)
    labels = {"app_name": "shop", "broker": "rocketmq", "destination": "orders"}
    assert registry.get_sample_value("faststream_published_messages_total", {**labels, "status": "success"}) == 1
    labels["handler"] = labels.pop("destination")
    assert registry.get_sample_value("faststream_received_messages_total", labels) == 1
