"""The clients of the sink: they send requests with many messages, and repeat each until its broker has answered.

``TaskProducer`` lives in the processes of Spark's tasks. It is in a producer group of its own, so that brokers never
ask a task about half messages: tasks end, and what they know is in the control topic. ``Committer`` lives where batches
are committed, and in checkers; it is a member of the group that is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.producer import Producer
from gantrymq.client.results import SendResult, SendStatus
from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.sending.publish import PublishQueues
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import ConfigError, GantryError, HalfNotStored, RequestRejected, TimedOut, Unreachable
from gantrymq.message import flags, properties, system_topics
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.batch import split_batch
from gantrymq.protocol.bodies.route import ClusterInfo
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_request
from gantrymq.protocol.halves import decode_codes
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.headers.topics import CreateTopic
from gantrymq.protocol.headers.transaction import EndHalves
from gantrymq.spark.patience import FIRST_PAUSE_S, LONGEST_PAUSE_S, may_pass
from gantrymq.spark.sink.chunks import Chunk

log = logging.getLogger("gantrymq.spark")

REQUEST_TIMEOUT_MS: Final = 15_000
"""How long a broker may take for one request; it may have to write half a megabyte."""
END_TIMEOUT_MS: Final = 120_000
STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
"""The message is in the log; all but the first say that it is less safe than the broker was asked for, as in the result
of Producer.send. SEND_HALVES is never answered so."""
_NOT_STORED: Final = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION})
"""Refusals that another broker may not share, and after which nothing was stored."""

WAIT_TEXT: Final = properties.encode({properties.WAIT: "true"})
"""The properties of a batch itself."""

MakeFrame = Callable[[MessageQueue, int], bytes]
"""The frame of a request for a queue, with this opaque."""


class _Client(Protocol):
    """What both clients have."""

    _endpoint: Endpoint
    _delivery: Delivery


async def ask_until_answered(
    client: _Client,
    topic: str,
    choose: Callable[[PublishQueues], MessageQueue],
    frame: MakeFrame,
    timeout_ms: int,
    *,
    stay: bool,
) -> tuple[MessageQueue, Command]:
    """Send a request until a broker has carried it out. Returns the queue and the answer.

    ``choose``: the queue of an attempt. ``stay``: once the request was sent to a broker, it goes to that broker only,
    which recognises it when it comes again. Raises the last error when ``timeout_ms`` is over, or when repeating cannot
    help.
    """
    endpoint, delivery = client._endpoint, client._delivery
    give_up, pause = endpoint.clock.monotonic() + timeout_ms / 1000, FIRST_PAUSE_S
    target: MessageQueue | None = None
    while True:
        error: GantryError
        sent_to = None
        try:
            if target is None:
                target = choose(await delivery.queues(topic))
            channel = delivery.ready(target) or await delivery.channel_to(target, REQUEST_TIMEOUT_MS)
            sent_to = target
            opaque = channel.next_opaque()
            answer = await channel.request(opaque, frame(target, opaque), REQUEST_TIMEOUT_MS)
        except (Unreachable, TimedOut) as failure:
            error = failure
        else:
            if answer.code in STORED:
                return target, answer
            error = _rejection(answer, target, channel.address)
            if answer.code in _NOT_STORED:
                sent_to = None
            elif not may_pass(error):
                raise error
        target = sent_to if stay else None
        if endpoint.clock.monotonic() + pause > give_up:
            raise error
        log.warning("a request of the sink to topic %s is repeated: %s", topic, error)
        await endpoint.clock.sleep(pause * (0.5 + endpoint.rng.random()))
        pause = min(2 * pause, LONGEST_PAUSE_S)
        await endpoint.routes.refresh([topic])


def _rejection(answer: Command, queue: MessageQueue, address: str) -> GantryError:
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return ConfigError(
            f"the broker {queue.broker_name} ({address}) does not declare that the end of a transaction may be "
            "repeated (Apache's brokers would deliver the message again), so exactly_once is not possible there. Set "
            "deliveryGuarantee=at_least_once, or write to a GantryMQ broker"
        )
    return RequestRejected(answer.code, answer.remark, request=f"messages of Spark to {queue}", address=address)


async def end_halves(
    client: _Client, group: str, topic: str, broker: str, ends: bytes, resolution: Resolution
) -> tuple[int, ...]:
    """End half messages of one broker (``ends``: see ``protocol.halves``). Returns their response codes.

    A response that asks for patience is not returned: the request is repeated, because a decision that was made before
    stays as it is.
    """
    header = EndHalves(producer_group=group, commit_or_rollback=int(resolution))
    target = MessageQueue(topic, broker, 0)
    clock = client._endpoint.clock
    give_up = clock.monotonic() + END_TIMEOUT_MS / 1000

    def frame(_: MessageQueue, opaque: int) -> bytes:
        return encode_request(RequestCode.END_HALVES, opaque, header, ends)

    while True:
        _, answer = await ask_until_answered(client, topic, lambda _: target, frame, END_TIMEOUT_MS, stay=True)
        codes = decode_codes(answer.body)
        if ResponseCode.SERVICE_NOT_AVAILABLE not in codes or clock.monotonic() > give_up:
            return codes
        await clock.sleep(LONGEST_PAUSE_S)


class TaskProducer(Producer):
    """Sends the messages of tasks."""

    async def queue_count(self, topic: str) -> int:
        """The number of queues of a topic."""
        return len((await self._delivery.queues(topic)).queues)

    async def store(self, chunk: Chunk, timeout_ms: int) -> None:
        """Send ordinary messages; return when they are stored. An error means that some may be stored."""
        if chunk.delays_ms is not None:
            await self._store_delayed(chunk, chunk.delays_ms)
            return
        await self._ask(chunk, RequestCode.SEND_BATCH_MESSAGE, WAIT_TEXT, 0, timeout_ms, stay=False)

    async def store_halves(self, chunk: Chunk, common: str, timeout_ms: int) -> tuple[str, bytes]:
        """Send half messages; ``common``: properties of all of them. Returns the broker and their places (see
        ``protocol.halves``)."""
        queue, answer = await self._ask(
            chunk, RequestCode.SEND_HALVES, common, flags.PREPARED, timeout_ms, stay=True
        )  # fmt: skip
        return queue.broker_name, answer.body

    async def _ask(
        self, chunk: Chunk, code: RequestCode, text: str, sys_flag: int, timeout_ms: int, *, stay: bool
    ) -> tuple[MessageQueue, Command]:
        def choose(queues: PublishQueues) -> MessageQueue:
            return queues.next() if chunk.queue is None else queues.queues[chunk.queue % len(queues.queues)]

        def frame(queue: MessageQueue, opaque: int) -> bytes:
            header = SendMessage(
                producer_group=self.group, topic=queue.topic, default_topic=system_topics.AUTO_CREATE,
                default_topic_queue_nums=self._config.default_topic_queue_nums, queue_id=queue.queue_id,
                sys_flag=sys_flag, born_timestamp=self._endpoint.clock.wall_ms(), flag=0, properties=text,
                reconsume_times=0, unit_mode=False, batch=True, bname=queue.broker_name,
            )  # fmt: skip
            return encode_request(code, opaque, header, chunk.body)

        return await ask_until_answered(self, chunk.topic, choose, frame, timeout_ms, stay=stay)

    async def _store_delayed(self, chunk: Chunk, delays_ms: Sequence[int]) -> None:
        """A batch cannot hold delayed messages."""
        sends = []
        for item, delay_ms in zip(split_batch(chunk.body), delays_ms, strict=True):
            message = Message(chunk.topic, item.body, flag=item.flag, delay_ms=delay_ms)
            message.properties.update(properties.decode(item.properties_text))
            sends.append(self.send(message))
        await asyncio.gather(*sends)


async def append(client: Producer, queue: MessageQueue, message: Message, timeout_ms: int) -> SendResult:
    """Send a message to one queue until it is stored as safely as the broker promises. It may be stored twice."""
    clock, pause = client._endpoint.clock, FIRST_PAUSE_S
    give_up = clock.monotonic() + timeout_ms / 1000
    while True:
        try:
            result = await client.send(message, queue, REQUEST_TIMEOUT_MS)
            if result.status is SendStatus.SEND_OK:
                return result
            error: GantryError = HalfNotStored(message.topic, result.status.name)
        except GantryError as failure:
            if not may_pass(failure):
                raise
            error = failure
        if clock.monotonic() + pause > give_up:
            raise error
        log.warning("a record for %s is sent again: %s", queue, error)
        await clock.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


async def await_name_server(client: Producer) -> None:
    """Return when a name server has answered, whatever it says. Raises Unreachable when none does.

    Every client may ask for a route, so this needs no permission that sending does not need.
    """
    header = GetRoute(topic=system_topics.AUTO_CREATE, accept_standard_json_only=True)
    await client._endpoint.name_servers.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)


async def make_control_topic(client: Producer, topic: str) -> None:
    """Make a topic with one queue, on the first broker by name. Raises Unreachable or RequestRejected."""
    answer = await client._endpoint.name_servers.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    brokers = ClusterInfo.decode(answer.body).broker_addr_table
    masters = sorted((name, data.master) for name, data in brokers.items() if data.master is not None)
    if not masters:
        raise Unreachable("the cluster", "the name servers know no broker; start one")
    header = CreateTopic(
        topic=topic, default_topic=system_topics.AUTO_CREATE, read_queue_nums=1, write_queue_nums=1, perm=6,
        topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip
    address = masters[0][1]
    made = await client._endpoint.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    if made.code != ResponseCode.SUCCESS:
        raise RequestRejected(made.code, made.remark, request=f"creation of topic {topic}", address=address)


class Committer(TransactionProducer):
    """Decides batches, ends their half messages, and answers check-backs."""
