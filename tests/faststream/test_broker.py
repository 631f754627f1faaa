"""The life of a broker: start, stop, order of both, and what it says when it is used wrongly."""

from __future__ import annotations

import asyncio
import re

import pytest
from faststream import FastStream, TestApp
from faststream.exceptions import IncorrectState, SetupError, StopConsume
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256

from gantrymq.errors import ConfigError, MessageIllegal, Unreachable
from gantrymq.faststream import GantryBroker, GantryRouter
from gantrymq.faststream.annotations import GantryMessage
from gantrymq.testing import LocalCluster
from tests.faststream.playing import play, quiet, soon


def test_publish_before_start_and_behind_stop_says_what_to_do(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker = quiet()
        with pytest.raises(IncorrectState, match=r"not connected.*await broker\.start"):
            await broker.publish("x", "orders")
        assert not await broker.ping()
        async with broker:  # connects, and starts no subscriber
            assert (await broker.publish("x", "orders")) is not None
            assert await broker.ping()
        with pytest.raises(IncorrectState, match="is stopped"):
            await broker.publish("x", "orders")
        await broker.stop()

    play(test)


def test_start_twice_reads_once_and_a_stopped_broker_starts_again(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, got = quiet(), asyncio.Queue[str]()

        @broker.subscriber("orders", group="shipping")
        async def ship(order: str) -> None:
            got.put_nowait(order)

        for _ in range(2):
            await asyncio.gather(broker.start(), broker.start())
            await broker.start()
            await broker.publish("o-1", "orders")
            assert await soon(got.get()) == "o-1"
            await broker.stop()
            await broker.stop()
        assert got.empty()

    play(test)


def test_stop_waits_for_the_handlers_that_run(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, begun, ended = quiet(), asyncio.Event(), []

        @broker.subscriber("orders", group="shipping")
        async def ship(order: str) -> None:
            begun.set()
            await asyncio.sleep(0.2)
            ended.append(order)

        await broker.start()
        await broker.publish("o-1", "orders")
        await soon(begun.wait())
        await broker.stop()
        assert ended == ["o-1"]
        again = quiet()
        again.subscriber("orders", group="shipping")(ship)
        await again.start()
        await again.stop()
        assert ended == ["o-1"]  # it was acknowledged before the end

    play(test)


def test_a_handler_may_stop_its_subscriber_and_what_it_acknowledged_is_consumed(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, got = quiet(), asyncio.Queue[str]()
        subscriber = broker.subscriber("orders", group="shipping")

        @subscriber
        async def ship(order: str, message: GantryMessage) -> None:
            got.put_nowait(order)
            if order == "o-1":
                await message.ack()
                raise StopConsume

        await broker.start()
        await broker.publish("o-1", "orders", order_key="one queue")
        assert await soon(got.get()) == "o-1"
        await soon(asyncio.gather(*subscriber._background))
        assert not subscriber.running
        await broker.publish("o-2", "orders", order_key="one queue")
        await subscriber.start()
        assert await soon(got.get()) == "o-2"
        await broker.stop()

    play(test)


def test_a_group_has_one_subscription() -> None:
    async def test() -> None:
        broker = quiet()
        with LocalCluster():

            @broker.subscriber("orders", group="shipping")
            @broker.subscriber("returns", group="shipping")
            async def ship(order: str) -> None: ...

            with pytest.raises(SetupError, match="'shipping', with different subscriptions") as raised:
                await broker.start()
            assert "'orders' with tags '*'" in str(raised.value) and "'returns' with tags '*'" in str(raised.value)
            assert not any(subscriber.running for subscriber in broker.subscribers)

    play(test)


def test_two_members_of_a_group_share_a_topic_and_each_message_comes_once(gantry: LocalCluster) -> None:
    async def test() -> None:
        one, two, got = quiet(), quiet(), asyncio.Queue[int]()
        for broker in (one, two):

            @broker.subscriber("orders", group="shipping")
            async def ship(order: int) -> None:
                got.put_nowait(order)

        async with TestApp(FastStream(one, two)):
            await one.publish_batch(*range(20), topic="orders")
            await two.publish_batch(*range(20, 40), topic="orders")
            assert sorted([await soon(got.get()) for _ in range(40)]) == list(range(40))

    play(test)


def test_what_is_missing_is_said_with_the_remedy(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker = quiet()

        @broker.subscriber("orders")
        async def ship(order: str) -> None: ...

        with pytest.raises(SetupError, match=r"'orders' has no group; write @broker.subscriber\('orders', group="):
            await broker.start()
        lonely = GantryRouter()
        outside = lonely.subscriber("orders", group="shipping")
        outside(ship)
        with pytest.raises(SetupError, match="not included in a broker"):
            await outside.start()
        with pytest.raises(SetupError, match="start the subscriber before"):
            await broker.subscriber("orders", group="one").get_one()
        await broker.connect()
        with pytest.raises(ConfigError, match="publishing needs a topic"):
            await broker.publish("x")
        await broker.stop()

    play(test)


def test_a_wrong_setting_is_refused_where_it_is_written() -> None:
    broker = quiet()
    with pytest.raises(ConfigError, match="unknown setting 'call_timeout'; did you mean 'call_timeout_ms'"):
        quiet(call_timeout=3)
    with pytest.raises(ConfigError, match="consume_threads"):
        broker.subscriber("orders", group="g", max_workers=0)
    with pytest.raises(ConfigError, match="unknown setting 'max_reconsume_time'"):
        broker.subscriber("orders", group="g", settings={"max_reconsume_time": 3})
    for wrong in (7, None, ""):
        with pytest.raises(ConfigError, match="the topic of a subscriber must be a text"):
            broker.subscriber(wrong, group="g")  # type: ignore[arg-type]
    with pytest.raises(MessageIllegal, match="group"):
        broker.subscriber("orders", group="my group!")
    with pytest.raises(ConfigError, match="give tags or sql, not both"):
        broker.subscriber("orders", group="g", tags="A", sql="a = 1")
    with pytest.raises(ConfigError, match="'tag' is not a valid option of publishing; these are: tags, keys"):
        broker.publisher("orders", tag="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="SASLScram256 is not a valid security for RocketMQ; use SASLPlaintext"):
        quiet(security=SASLScram256("u", "p"))
    with pytest.raises(ConfigError, match="name"):
        quiet(name_servers="nowhere")


def test_security_becomes_settings_of_the_clients() -> None:
    account = quiet(security=SASLPlaintext("app", "secret", use_ssl=True)).config.broker_config.connection.settings
    assert account == {"access_key": "app", "secret_key": "secret", "tls": True}
    assert quiet(security=BaseSecurity(use_ssl=True)).config.broker_config.connection.settings == {"tls": True}


def test_without_a_cluster_start_fails_and_nothing_is_left() -> None:
    async def test() -> None:
        broker = quiet(name_servers="127.0.0.1:1", call_timeout_ms=300)

        @broker.subscriber("orders", group="shipping")
        async def ship(order: str) -> None: ...

        with pytest.raises(Unreachable):
            await broker.start()
        assert not await broker.ping(timeout=1)
        with pytest.raises(IncorrectState):
            await broker.publish("x", "orders")

    play(test)


def test_topics_of_subscribers_are_made_unless_that_is_not_wanted(gantry: LocalCluster) -> None:
    async def test() -> None:
        for declare in (False, True):
            broker = quiet(declare_topics=declare)

            @broker.subscriber("fresh", group="shipping")
            async def ship(order: str) -> None: ...

            await broker.start()
            await broker.stop()
            assert (gantry.broker.topics.get("fresh") is not None) is declare

    play(test)


@pytest.mark.slow
def test_a_lost_broker_comes_back_and_the_subscriber_goes_on(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, got = quiet(), asyncio.Queue[int]()

        @broker.subscriber("orders", group="shipping")
        async def ship(order: int) -> None:
            got.put_nowait(order)

        await broker.start()
        await broker.publish(1, "orders")
        assert await soon(got.get()) == 1
        await asyncio.to_thread(gantry.restart_broker)
        await broker.publish(2, "orders")
        while await soon(got.get()) != 2:  # the first may come again
            pass
        await broker.stop()

    play(test)


def test_log_lines_name_topic_group_and_message(gantry: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        broker, got = GantryBroker(), asyncio.Event()

        @broker.subscriber("orders", group="shipping")
        async def ship(order: int) -> None:
            got.set()

        await broker.start()
        await broker.publish(1, "orders")
        await soon(got.wait())
        await broker.stop()

    play(test)
    said = capsys.readouterr()
    assert re.search(r"orders \| shipping \| [0-9A-F]{10} - Processed", said.out + said.err)
