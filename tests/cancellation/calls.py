"""The calls of the asyncio client that ``cancellation`` tries, and what comes before each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from gantrymq.admin import Admin
from gantrymq.client.connection.endpoint import Outside
from gantrymq.client.lite_pull_consumer import LitePullConsumer
from gantrymq.client.producer import Producer
from gantrymq.client.pull_consumer import PullConsumer
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.simple_consumer import SimpleConsumer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import OPERATOR_CLIENT, Resolution
from gantrymq.simulation.world.cluster import NAME_SERVERS
from tests.cancellation.world import TOPIC, Call, PlainBank, World, transaction_producer


async def nothing(client: Any, world: World) -> None:
    """No preparation."""


async def begin(client: Any, world: World) -> None:
    await client.start()


# Producers.


def producer(outside: Outside, world: World, **settings: Any) -> Producer:
    return Producer("senders", name_servers=NAME_SERVERS, outside=outside, **settings)


def of_topic(outside: Outside, world: World) -> Producer:
    return producer(outside, world, topics=[TOPIC])


def traced(outside: Outside, world: World) -> Producer:
    return producer(outside, world, topics=[TOPIC], trace=True)


async def send(client: Producer, world: World) -> None:
    await client.send(Message(TOPIC, world.body()))


async def warm(client: Any, world: World) -> None:
    await client.start()
    await send(client, world)


async def start_and_send(client: Producer, world: World) -> None:
    await client.start()
    await send(client, world)


async def beside(client: Producer, world: World) -> None:
    """Another first send is under way, and both wait for the same route and connection."""
    await client.start()
    world.beside = asyncio.get_running_loop().create_task(send(client, world))


async def both(client: Producer, world: World) -> None:
    if world.beside is not None:
        try:
            await world.beside
        except GantryError:
            if not world.rough:
                raise
    await send(client, world)


async def send_ordered(client: Producer, world: World) -> None:
    await client.send_ordered(Message(TOPIC, world.body()), "key")


async def send_oneway(client: Producer, world: World) -> None:
    await client.send_oneway(Message(TOPIC, world.body()))


async def send_batch(client: Producer, world: World) -> None:
    await client.send_batch([Message(TOPIC, world.body()) for _ in range(3)])


async def send_batches(client: Producer, world: World) -> None:
    await client.send_batches([Message(TOPIC, world.body()) for _ in range(3)])


async def request(client: Producer, world: World) -> None:
    answer = await client.request(Message(TOPIC, world.body()), 10_000)
    if answer.body != b"answer":
        raise ValueError(f"another answer: {answer.body!r}")


async def recall(client: Producer, world: World) -> None:
    world.asked[b"later"] += 1
    sent = await client.send(Message(TOPIC, b"later", delay_ms=3_600_000))
    if sent.recall_handle:
        await client.recall(TOPIC, sent.recall_handle)


async def asked(client: Producer, world: World) -> None:
    await client.start()
    await world.ask()


async def reply(client: Producer, world: World) -> None:
    if world.question is not None:
        await client.reply(world.question, b"answer")


async def asked_and_replied(client: Producer, world: World) -> None:
    await world.ask()
    await reply(client, world)


async def queues(client: Producer, world: World) -> None:
    await client.queues(TOPIC)


async def close(client: Any, world: World) -> None:
    await client.close()


async def sending(client: Producer, world: World) -> None:
    """Warm, with a send in flight."""
    await warm(client, world)
    task = asyncio.get_running_loop().create_task(send(client, world))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


# Transactions.


async def transact(client: TransactionProducer, world: World) -> None:
    await client.send_in_transaction(Message(TOPIC, world.body()))


# Readers.


def pulling(outside: Outside, world: World) -> PullConsumer:
    return PullConsumer("pullers", name_servers=NAME_SERVERS, outside=outside)


QUEUE: Final = MessageQueue(TOPIC, "broker-0", 0)


def lite(outside: Outside, world: World) -> LitePullConsumer:
    consumer = LitePullConsumer(
        "lite", name_servers=NAME_SERVERS, outside=outside, from_where=ConsumeFromWhere.FIRST_OFFSET,
        auto_commit_interval_ms=0, poll_batch_size=3,
    )  # fmt: skip
    return consumer.subscribe(TOPIC)


def assigning(outside: Outside, world: World) -> LitePullConsumer:
    return LitePullConsumer(
        "lite", name_servers=NAME_SERVERS, outside=outside, from_where=ConsumeFromWhere.FIRST_OFFSET, auto_commit=False
    )


async def poll(client: LitePullConsumer, world: World) -> None:
    world.got.update(view.body for view in await client.poll())


async def joined(client: Any, world: World) -> None:
    """Started, with some queues."""
    await client.start()
    while not client.assigned:
        await asyncio.sleep(0.1)


async def with_a_message(client: Any, world: World) -> None:
    """Joined; a message was sent that may be with the listener, on its way, or only stored."""
    await joined(client, world)
    await world.send_soon(world.body())
    await asyncio.sleep(0.0495 + 0.0005 * (len(world.asked) % 8))


async def polled(client: LitePullConsumer, world: World) -> None:
    await joined(client, world)
    await world.send_soon(world.body())
    await poll(client, world)


async def read_all(client: LitePullConsumer, world: World) -> None:
    """Nothing is left to poll."""
    await joined(client, world)
    while found := await client.poll(1000):
        world.got.update(view.body for view in found)


async def poll_a_new_one(client: LitePullConsumer, world: World) -> None:
    """A message comes while ``poll`` waits."""
    world.expected = world.body()
    await world.send_soon(world.expected)
    await poll(client, world)


async def poll_the_new_one(client: LitePullConsumer, world: World) -> None:
    """What the poll that was cancelled did not return is returned by a later one."""
    for _ in range(5):
        if world.got[world.expected]:
            return
        await poll(client, world)
    raise ValueError(f"{world.expected!r} is lost")


async def start_and_poll(client: LitePullConsumer, world: World) -> None:
    await client.start()
    await client.poll()


async def seek(client: LitePullConsumer, world: World) -> None:
    await client.seek(client.assigned[0], 0)


async def assign(client: LitePullConsumer, world: World) -> None:
    await client.assign([QUEUE])


INVISIBLE_MS: Final = 3_600_000
"""What a call has taken and not returned does not come again by itself, so it is found out. In a network that loses
answers it does: nobody can give back what he never got."""
INVISIBLE_WHEN_ROUGH_MS: Final = 4_000


def simple(outside: Outside, world: World) -> SimpleConsumer:
    consumer = SimpleConsumer(
        "simple", name_servers=NAME_SERVERS, outside=outside, from_where=ConsumeFromWhere.FIRST_OFFSET,
        await_duration_ms=2_000,
    )  # fmt: skip
    return consumer.subscribe(TOPIC)


async def receive(client: SimpleConsumer, world: World) -> list[MessageView]:
    found = await client.receive(3, INVISIBLE_WHEN_ROUGH_MS if world.rough else INVISIBLE_MS)
    world.got.update(view.body for view in found)
    return found


async def received(client: SimpleConsumer, world: World) -> None:
    """Started, with a message in hand."""
    await client.start()
    await world.send_soon(world.body())
    world.in_hand = (await receive(client, world))[0]


async def received_all(client: SimpleConsumer, world: World) -> None:
    """Nothing is left to receive."""
    await client.start()
    while await receive(client, world):
        pass


async def receive_a_new_one(client: SimpleConsumer, world: World) -> None:
    """A message comes while ``receive`` waits."""
    world.expected = world.body()
    await world.send_soon(world.expected)
    await receive(client, world)


async def receive_the_new_one(client: SimpleConsumer, world: World) -> None:
    """What the receive that was cancelled did not return is returned by a later one."""
    for _ in range(30 if world.rough else 5):
        if world.got[world.expected]:
            return
        await receive(client, world)
    raise ValueError(f"{world.expected!r} is lost")


async def start_and_receive(client: SimpleConsumer, world: World) -> None:
    await client.start()
    await receive(client, world)


async def ack(client: SimpleConsumer, world: World) -> None:
    if world.in_hand is not None:
        await client.ack(world.in_hand)


async def change(client: SimpleConsumer, world: World) -> None:
    if world.in_hand is not None:
        await client.change_invisible_duration(world.in_hand, INVISIBLE_MS)


def push(outside: Outside, world: World, **settings: Any) -> PushConsumer:
    async def listener(messages: list[MessageView]) -> None:
        await asyncio.sleep(0.001)
        world.got.update(view.body for view in messages)

    return PushConsumer(
        "push", name_servers=NAME_SERVERS, listener=listener, outside=outside, from_where=ConsumeFromWhere.FIRST_OFFSET,
        **settings,
    ).subscribe(TOPIC)  # fmt: skip


def push_broadcast(outside: Outside, world: World) -> PushConsumer:
    return push(replace(outside, disk=world.disk), world, broadcasting=True)


def push_orderly(outside: Outside, world: World) -> PushConsumer:
    return push(outside, world, orderly=True)


def on(make: Callable[[Outside, World], Any], name: str, act: Callable[[Any], Awaitable[Any]], **more: Any) -> Call:
    """A call that needs nothing but its client."""

    async def acting(client: Any, world: World) -> None:
        await act(client)

    return Call(name=name, make=make, act=acting, **more)


def administrating(outside: Outside, world: World) -> Admin:
    return Admin(NAME_SERVERS, outside=outside)


async def make_topic(client: Admin, world: World) -> None:
    await client.create_topic("Other", 1)


async def delete_topic(client: Admin, world: World) -> None:
    await client.create_topic("Third", 1)
    await client.delete_topic("Third")


async def with_an_open_half(client: Admin, world: World) -> None:
    await client.start()
    (world.place,) = await client.transactions.find(await world.leave_open())


async def end(client: Admin, world: World) -> None:
    if world.place is not None:
        await client.transactions.end(world.place, Resolution.ROLLBACK, "a test")


async def operator_left(client: Admin, world: World) -> None:
    """An operator joins the producer group for as long as it takes, and would be asked about its transactions."""
    members = (await client.consumers.producers()).data.get("undecided", [])
    if any(OPERATOR_CLIENT in member.client_id for member in members):
        raise ValueError("the operator is still a member of the producer group")


CALLS: Final = (
    Call(name="Producer.start", make=of_topic, prepare=nothing, act=begin, next=start_and_send),
    Call(name="Producer.start, traced", make=traced, prepare=nothing, act=begin, next=start_and_send),
    Call(name="Producer.send, first", make=producer, act=send),
    Call(name="Producer.send, first, beside another", make=producer, prepare=beside, act=send, next=both),
    Call(name="Producer.send", make=producer, prepare=warm, act=send),
    Call(name="Producer.send, traced", make=traced, prepare=warm, act=send),
    Call(name="Producer.send_ordered", make=producer, act=send_ordered),
    Call(name="Producer.send_oneway", make=producer, act=send_oneway),
    Call(name="Producer.send_batch", make=producer, act=send_batch),
    Call(name="Producer.send_batches", make=producer, act=send_batches),
    Call(name="Producer.request", make=producer, act=request, replier=True),
    Call(name="Producer.recall", make=producer, act=recall),
    Call(name="Producer.reply", make=producer, prepare=asked, act=reply, next=asked_and_replied),
    Call(name="Producer.queues", make=producer, act=queues),
    Call(name="Producer.close", make=producer, prepare=warm, act=close, ends_client=True),
    Call(name="Producer.close while sending", make=producer, prepare=sending, act=close,
         ends_client=True),
    Call(name="TransactionProducer.send_in_transaction, async", make=transaction_producer, act=transact,
         transactional=True),
    Call(name="TransactionProducer.send_in_transaction, inline", act=transact, transactional=True,
         make=lambda outside, world: transaction_producer(outside, world, PlainBank, inline_listener=True)),
    Call(name="TransactionProducer.send_in_transaction, in a thread", act=transact, transactional=True,
         make=lambda outside, world: transaction_producer(outside, world, PlainBank)),
    Call(name="TransactionProducer.close", make=transaction_producer, prepare=warm, act=close, ends_client=True),
    on(pulling, "PullConsumer.queues", lambda client: client.queues(TOPIC)),
    on(pulling, "PullConsumer.pull", lambda client: client.pull(QUEUE, 0), reads=True),
    on(pulling, "PullConsumer.pull, waiting", lambda client: client.pull(QUEUE, 0, wait_ms=2000)),
    on(pulling, "PullConsumer.pull_raw", lambda client: client.pull_raw(QUEUE, 0, 10, 1000), reads=True),
    on(pulling, "PullConsumer.max_offset", lambda client: client.max_offset(QUEUE)),
    on(pulling, "PullConsumer.offset_by_time", lambda client: client.offset_by_time(QUEUE, 5), reads=True),
    on(pulling, "PullConsumer.commit", lambda client: client.commit(QUEUE, 0)),
    on(pulling, "PullConsumer.committed", lambda client: client.committed(QUEUE)),
    Call(name="PullConsumer.close", make=pulling, act=close, ends_client=True),
    Call(name="LitePullConsumer.start", make=lite, prepare=nothing, act=begin, next=start_and_poll, may_close=True,
         reads=True),
    Call(name="LitePullConsumer.poll, waiting", make=lite, prepare=read_all, act=poll_a_new_one, next=poll_the_new_one,
         successor=lite),
    on(lite, "LitePullConsumer.commit", lambda client: client.commit(), prepare=polled, reads=True),
    Call(name="LitePullConsumer.seek", make=lite, prepare=joined, act=seek, reads=True),
    Call(name="LitePullConsumer.assign", make=assigning, act=assign, reads=True),
    Call(name="LitePullConsumer.close", make=lite, prepare=polled, act=close, reads=True, ends_client=True,
         successor=lite),
    Call(name="SimpleConsumer.start", make=simple, prepare=nothing, act=begin, next=start_and_receive, may_close=True,
         reads=True),
    Call(name="SimpleConsumer.receive, waiting", make=simple, prepare=received_all, act=receive_a_new_one,
         next=receive_the_new_one, successor=simple),
    Call(name="SimpleConsumer.ack", make=simple, prepare=received, act=ack, reads=True),
    Call(name="SimpleConsumer.change_invisible_duration", make=simple, prepare=received, act=change, next=received,
         reads=True),
    Call(name="SimpleConsumer.close", make=simple, prepare=received, act=close, reads=True, ends_client=True,
         successor=simple),
    Call(name="PushConsumer.start", make=push, prepare=nothing, act=begin, may_close=True, reads=True,
         successor=push),
    Call(name="PushConsumer.start, orderly", make=push_orderly, prepare=nothing, act=begin, may_close=True, reads=True,
         successor=push_orderly),
    Call(name="PushConsumer.start, broadcasting", make=push_broadcast, prepare=nothing, act=begin, may_close=True,
         reads=True),
    Call(name="PushConsumer.close, broadcasting", make=push_broadcast, prepare=with_a_message, act=close, reads=True,
         ends_client=True),
    Call(name="PushConsumer.close", make=push, prepare=with_a_message, act=close, reads=True, ends_client=True,
         successor=push),
    Call(name="PushConsumer.close, orderly", make=push_orderly, prepare=with_a_message, act=close, reads=True,
         ends_client=True, successor=push_orderly),
    Call(name="Admin.create_topic", make=administrating, act=make_topic),
    Call(name="Admin.delete_topic", make=administrating, act=delete_topic),
    Call(name="Admin.transactions.end", make=administrating, prepare=with_an_open_half, act=end, next=operator_left),
    on(administrating, "Admin.transactions.undecided", lambda client: client.transactions.undecided()),
    on(administrating, "Admin.messages.at", lambda client: client.messages.at(QUEUE, 0), reads=True),
    on(administrating, "Admin.consumers.progress", lambda client: client.consumers.progress("repliers"), replier=True),
    on(administrating, "Admin.groups.all", lambda client: client.groups.all()),
    on(administrating, "Admin.topics", lambda client: client.topics()),
    on(administrating, "Admin.route", lambda client: client.route(TOPIC)),
    on(administrating, "Admin.cluster_info", lambda client: client.cluster_info()),
    on(administrating, "Admin.queue_stats", lambda client: client.queue_stats(TOPIC), reads=True),
)  # fmt: skip
