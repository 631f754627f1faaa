"""X5: every consumer can read undecided messages.

A consumer group that pulls the half topic of an Apache broker gets the half messages, with body and properties. It can
have one sent back to itself as if it had consumed it, and a tool can have it consumed. Ours delivers half, op and
parked messages to no consumer group, in no way. Tools of the operator may read them: they pull as TOOLS_CONSUMER, or
ask for a message by its id.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gantrymq.client.connection.endpoint import Outside
from gantrymq.message import system_topics
from gantrymq.message.heartbeat import ConsumerData, SubscriptionData
from gantrymq.message.system_topics import HALF, TOOLS_CONSUMER
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.pop import PopMessage
from gantrymq.protocol.headers.tools import ConsumeDirectly
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import decode_record, scan
from gantrymq.remoting.channel import ClientChannel
from gantrymq.remoting.client import RemotingClient
from tests.holes.actors import TIMEOUT_MS
from tests.holes.case import Apache, Case, Mutant, Observed, both
from tests.holes.stage import Stage, key_of, require

TRIES = 3
POPPED_AT_MOST = 32
FIRST_LEVEL = 1
FIRST_LEVEL_S = 1.0


async def _by_a_pull(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    observed = [key_of(message) for message in await stage.read(HALF, stage.new_name("CG"))]
    shown = [key_of(message) for message in await stage.read(HALF, TOOLS_CONSUMER)]
    require(all(half.key in shown for half in halves), "the owner's tools may look")
    return Observed(sum(half.key in observed for half in halves), TRIES)


async def _by_a_pop(stage: Stage) -> Observed:
    topic, producer, group = await stage.topic(), await stage.producer(), stage.new_name("CG")
    halves = await producer.halves(topic, TRIES)
    found: set[str] = set()
    while True:
        header = PopMessage(
            consumer_group=group, topic=HALF, queue_id=0, max_msg_nums=POPPED_AT_MOST, invisible_time=60_000,
            poll_time=0, born_time=stage.wall_ms(), init_mode=1, exp_type="TAG", exp="*",
        )  # fmt: skip
        answer = await stage.ask(RequestCode.POP_MESSAGE, header)
        if answer.code != ResponseCode.SUCCESS:
            return Observed(sum(half.key in found for half in halves), TRIES, f"{answer.code} {answer.remark}")
        found |= {key_of(message) for message in scan(answer.body)}


async def _sent_back(stage: Stage) -> Observed:
    """A consumer says that it could not consume the message at the half's place."""
    topic, producer, group = await stage.topic(), await stage.producer(), stage.new_name("CG")
    halves = await producer.halves(topic, TRIES)
    await stage.read(topic, group)  # makes the group known
    codes = []
    for half in halves:
        header = SendBack(offset=half.place[1], group=group, delay_level=FIRST_LEVEL, origin_topic=topic)
        codes.append((await stage.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code)
    await stage.sleep(FIRST_LEVEL_S * 2)
    got = [message.body for message in await stage.read(system_topics.retry_topic(group), group)]
    return Observed(len(got), TRIES, f"answers {codes}")


async def _consumed_directly(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    consumer = Consumer(stage.new_outside(), stage.new_name("CG"), stage.address)
    await consumer.join(topic)
    stored = {key_of(message): message for message in await stage.read(HALF, TOOLS_CONSUMER)}
    for half in halves:
        name = offset_message_id(pack_host(stored[half.key].store_host), half.place[1])
        header = ConsumeDirectly(consumer_group=consumer.group, client_id=consumer.group, msg_id=name)
        await stage.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    await consumer.leave()
    return Observed(sum(half.key in consumer.consumed for half in halves), TRIES)


class Consumer:
    """A member of a consumer group that consumes what it is told to."""

    def __init__(self, outside: Outside, group: str, address: str) -> None:
        self.group = group
        self.consumed: list[str] = []
        self._address = address
        self._client = RemotingClient(outside.network, outside.clock, outside.rng, requests=self._reported)

    async def join(self, topic: str) -> None:
        member = ConsumerData(group_name=self.group, subscription_data_set=[SubscriptionData.of_tags(topic, "*", 1)])
        beat = HeartbeatData(client_id=self.group, consumer_data_set=[member])
        await self._client.call(self._address, RequestCode.HEART_BEAT, None, beat.encode(), timeout_ms=TIMEOUT_MS)

    async def leave(self) -> None:
        await self._client.close()

    def _reported(self, channel: ClientChannel, command: Command) -> None:
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            self.consumed.append(key_of(decode_record(command.body)))
            channel.send(encode_response(command, ResponseCode.SUCCESS, body=b'{"consumeResult":"CR_SUCCESS"}'))


def _read_by_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(system_topics, "TRANSACTION_TOPICS", frozenset())


OPEN = (Mutant("the topics that only tools read", _read_by_all),)
CASES = [
    Case("a pull", _by_a_pull, OPEN, both(Apache.ALWAYS)),
    Case("a pop", _by_a_pop, OPEN, {"4.9.7": Apache.NEVER, "5.5.0": Apache.ALWAYS}),
    Case("sent back", _sent_back, OPEN, both(Apache.ALWAYS)),
    Case("consumed directly", _consumed_directly, OPEN, both(Apache.ALWAYS)),
]


def test_hole_x5_reading_what_is_undecided(played: Callable[[], None]) -> None:
    played()
