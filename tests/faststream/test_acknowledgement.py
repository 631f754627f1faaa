"""What becomes of a message behind its handler: consumed, delivered again, or in the dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.exceptions import AckMessage, NackMessage, RejectMessage
from pydantic import BaseModel

from gantrymq.faststream.annotations import GantryMessage
from gantrymq.testing import LocalCluster
from tests.faststream.playing import play, quiet

TIME = pytest.mark.gantry(virtual_time=True)


class Order(BaseModel):
    id: str


async def fails(message: GantryMessage) -> None:
    raise ValueError("the handler failed")


async def nacks(message: GantryMessage) -> None:
    await message.nack()


async def nacks_at_level_one(message: GantryMessage) -> None:
    await message.nack(delay_level=1)


async def rejects(message: GantryMessage) -> None:
    await message.reject()


async def acks(message: GantryMessage) -> None:
    await message.ack()


async def acks_and_fails(message: GantryMessage) -> None:
    await message.ack()
    raise ValueError("behind the ack")


async def says_nothing(message: GantryMessage) -> None: ...


async def raises_nack(message: GantryMessage) -> None:
    raise NackMessage(delay_level=1)


async def raises_reject(message: GantryMessage) -> None:
    raise RejectMessage()


async def raises_ack(message: GantryMessage) -> None:
    raise AckMessage()


async def wants_an_order(order: Order) -> None: ...


@TIME
@pytest.mark.parametrize(
    ("handler", "policy", "after_2_s", "after_15_s", "dead"),
    [
        (fails, AckPolicy.NACK_ON_ERROR, 1, 2, 0),
        (fails, AckPolicy.REJECT_ON_ERROR, 1, 1, 1),
        (fails, AckPolicy.ACK, 1, 1, 0),
        (fails, AckPolicy.ACK_FIRST, 1, 1, 0),
        (fails, AckPolicy.MANUAL, 1, 2, 0),
        (says_nothing, AckPolicy.NACK_ON_ERROR, 1, 1, 0),
        (says_nothing, AckPolicy.MANUAL, 1, 2, 0),
        (acks, AckPolicy.MANUAL, 1, 1, 0),
        (acks_and_fails, AckPolicy.NACK_ON_ERROR, 1, 1, 0),
        (nacks, AckPolicy.MANUAL, 1, 2, 0),
        (nacks, AckPolicy.ACK, 1, 2, 0),
        (nacks_at_level_one, AckPolicy.MANUAL, 3, 15, 0),
        (rejects, AckPolicy.MANUAL, 1, 1, 1),
        (raises_nack, AckPolicy.ACK, 3, 15, 0),
        (raises_reject, AckPolicy.ACK, 1, 1, 1),
        (raises_ack, AckPolicy.NACK_ON_ERROR, 1, 1, 0),
        (wants_an_order, AckPolicy.NACK_ON_ERROR, 1, 2, 0),
        (wants_an_order, AckPolicy.REJECT_ON_ERROR, 1, 1, 1),
    ],
    ids=lambda value: getattr(value, "__name__", getattr(value, "value", str(value))),
)
def test_deliveries(
    gantry: LocalCluster, handler: Callable[..., Any], policy: AckPolicy, after_2_s: int, after_15_s: int, dead: int
) -> None:
    async def test() -> None:
        broker, deliveries = quiet(), []

        async def counted(message: Any) -> bool:
            deliveries.append(message.message_id)
            return True

        broker.subscriber("orders", group="shipping", ack_policy=policy)(handler, filter=counted)
        await broker.start()
        await broker.publish({"no": "order"}, "orders")
        await gantry.advance_async(2)
        assert len(deliveries) == after_2_s
        await gantry.advance_async(13)
        assert min(len(deliveries), 3) == min(after_15_s, 3)
        assert len(set(deliveries)) == 1
        await broker.stop()

    play(test)
    assert len(gantry.dead_letters("shipping")) == dead


@TIME
def test_what_is_retried_too_often_goes_to_the_dead_letters(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, times = quiet(), []

        @broker.subscriber("orders", group="shipping", settings={"max_reconsume_times": 2})
        async def ship(message: GantryMessage) -> None:
            times.append(message.raw_message.reconsume_times)
            raise ValueError

        await broker.start()
        await broker.publish("o-1", "orders")
        await gantry.advance_async(60)
        assert times == [0, 1, 2]
        await broker.stop()

    play(test)
    assert [message.body for message in gantry.dead_letters("shipping")] == [b"o-1"]


@TIME
def test_a_batch_has_one_fate(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, batches = quiet(), []

        @broker.subscriber("orders", group="shipping", batch=True, max_records=10)
        async def ship(orders: list[int], message: GantryMessage) -> None:
            batches.append(sorted(orders))
            if message.raw_message[0].reconsume_times == 0:
                raise ValueError

        await broker.start()
        await broker.publish_batch(1, 2, 3, topic="orders")
        await gantry.advance_async(1)
        assert batches == [[1, 2, 3]]
        await gantry.advance_async(14)
        assert sorted(order for batch in batches[1:] for order in batch) == [1, 2, 3]
        await broker.stop()

    play(test)


@TIME
def test_orderly_messages_wait_for_the_one_that_failed(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, seen = quiet(), []

        @broker.subscriber("orders", group="shipping", orderly=True, max_workers=8)
        async def ship(order: int, message: GantryMessage) -> None:
            seen.append(order)
            if order == 2 and message.raw_message.reconsume_times < 2:
                await message.nack(suspend_ms=500)
            if order == 3:
                await message.reject()

        await broker.start()
        for order in (1, 2, 3, 4):
            await broker.publish(order, "orders", order_key="customer-7")
        await gantry.advance_async(3)
        assert seen[:5] == [1, 2, 2, 2, 3]
        await gantry.advance_async(60)
        assert seen == [1, 2, 2, 2, *[3] * 17, 4]  # a rejected one comes 16 times again, then the queue goes on
        await gantry.advance_async(10)
        await broker.stop()

    play(test)
    assert [message.body for message in gantry.dead_letters("shipping")] == [b"3"]


@TIME
def test_acknowledged_first_runs_no_more_handlers_than_workers_and_stop_waits_for_them(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, running, most, ended = quiet(), 0, 0, 0

        @broker.subscriber("orders", group="shipping", ack_policy=AckPolicy.ACK_FIRST, max_workers=2)
        async def ship(order: int) -> None:
            nonlocal running, most, ended
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            ended += 1

        await broker.start()
        await broker.publish_batch(*range(6), topic="orders")
        while not ended:
            await asyncio.sleep(0.01)
        await broker.stop()
        assert running == 0
        assert most <= 2

    play(test)


@TIME
def test_a_message_without_a_fitting_handler_is_delivered_again(gantry: LocalCluster) -> None:
    async def test() -> None:
        broker, seen = quiet(), []
        subscriber = broker.subscriber("orders", group="shipping")

        @subscriber(filter=lambda message: message.headers.get("kind") == "paid")
        async def paid(order: str) -> None:
            seen.append(order)

        await broker.start()
        await broker.publish("o-1", "orders", headers={"kind": "paid"})
        await broker.publish("o-2", "orders", headers={"kind": "returned"})
        await gantry.advance_async(2)
        assert seen == ["o-1"]
        await broker.stop()

    play(test)
