"""Sends a message until a broker has stored it: chooses queues, repeats attempts and avoids slow brokers.

Source: DefaultMQProducerImpl.sendDefaultImpl, MQFaultStrategy; docs/protocol.md#sending.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from gantrymq.client.config import ProducerConfig
from gantrymq.client.connection.endpoint import RETRY_PAUSE_S, Endpoint
from gantrymq.client.connection.routes import fallback_topics, publish_queues
from gantrymq.client.metrics.figures import ClientFigures
from gantrymq.client.results import SendResult, SendStatus
from gantrymq.client.sending.faults import FaultTable
from gantrymq.client.sending.publish import PublishQueues
from gantrymq.errors import GantryError, RequestRejected, RouteNotFound, TimedOut, Unreachable
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.message.replication import NOT_PRIMARY, UNCONFIRMED
from gantrymq.protocol.bodies.route import QueueData, TopicRoute
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.remoting.channel import ClientChannel
from gantrymq.runtime.clock import within

log = logging.getLogger("gantrymq.client")

RETRIED_CODES: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""Refusals that another broker may not share. Source: DefaultMQProducer.retryResponseCodes of 5.x."""
UNCERTAIN_CODES: Final = frozenset(
    {
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
"""Answers after which the message may be in the log nevertheless. For example, its sync failed, but the message is
there after a restart."""

_STATUS: Final = {int(status.value): status for status in SendStatus}
_SEND_OK: Final = SendStatus.SEND_OK
NOT_WRITABLE: Final = "no broker with a master has a writable queue of it"
NO_PRIMARY: Final = "a broker that has it has no master at the moment"
"""A replica may be about to become primary, so this is waited for."""
LOOK_S: Final = 0.5
LOOKS: Final = 10
"""How often, and how many times, the name servers are asked for another primary of a broker that failed."""
_ROUTE_SOON_S: Final = 1.0
"""When to look for the real route of a topic that its first message creates."""


MakeFrame = Callable[[MessageQueue, int], bytes]
"""Encodes the request for one queue with the given opaque."""


class Tried(NamedTuple):
    """An attempt that was made, and its outcome."""

    target: MessageQueue
    address: str
    outcome: Command | Unreachable | TimedOut
    started: float
    """Monotonic seconds."""


class Delivery:
    """The attempts of all sends of one producer."""

    def __init__(self, endpoint: Endpoint, config: ProducerConfig, figures: ClientFigures | None = None) -> None:
        """``figures``: where the sends are counted; None: nowhere."""
        self.figures: Final = ClientFigures("") if figures is None else figures
        self._endpoint = endpoint
        self._config = config
        self._faults = FaultTable()
        self._publish: dict[str, tuple[TopicRoute, PublishQueues]] = {}
        self._provisional: set[str] = set()
        """Topics that their first message will create. Until then their route is a copy of the template topic's."""
        self._looked_for: dict[str, float] = {}
        """Name of a broker that failed, to the time until which another primary of it is looked for."""
        self.in_flight = 0

    async def deliver(
        self,
        topic: str,
        message_id: str,
        make_frame: MakeFrame,
        deadline: float,
        queue: MessageQueue | None,
        *,
        stay: bool = False,
        first: Tried | None = None,
    ) -> SendResult:
        """Make attempts until one succeeds; the ``first`` attempt may have been made already.

        ``stay``: after an attempt with an unknown result no other broker is tried. Only the same broker can join the
        half message with the one it may have stored. Another broker would store a second half message, and if the
        sender dies, another producer would answer COMMIT to the checks of both.
        """
        try:
            return await self._attempts(topic, message_id, make_frame, deadline, queue, stay, first)
        except GantryError:
            self.figures.of_sends(topic).failed += 1
            raise

    async def _attempts(
        self, topic: str, message_id: str, make_frame: MakeFrame, deadline: float, queue: MessageQueue | None,
        stay: bool, first: Tried | None,
    ) -> SendResult:  # fmt: skip
        again = first is not None
        error: GantryError | None = None
        avoid: str | None = None
        same: str | None = None
        left = 1 if queue is not None else 1 + self._config.retries
        tried = first
        while left:
            if tried is None:
                started = self._endpoint.clock.monotonic()
                remaining_ms = int((deadline - started) * 1000)
                if remaining_ms <= 0:
                    break
                publish = self.known_queues(topic) or await self._queues_again(topic, deadline, error)
                if publish is None:
                    continue
                target = queue or self._choose(publish, same, avoid, started)
                # Where nothing was sent, it does not count as an attempt: the client waits for a broker to restart.
                patient = avoid == target.broker_name or queue is not None or same is not None
                reached = self.ready(target) or await self._reach(target, remaining_ms, patient)
                if isinstance(reached, Unreachable):
                    error, avoid = reached, target.broker_name
                    continue
                tried = await self._try(target, reached, make_frame, remaining_ms, started, again)
                again = True
            left -= 1
            (target, address, outcome, tried_at), tried = tried, None
            if isinstance(outcome, GantryError):
                error = outcome
                same = target.broker_name if stay else None
                self.failed(target)
            else:
                result = send_result(outcome, target, message_id)
                if result is not None and (not left or self._settles(result)):
                    self._stored(topic, tried_at)
                    return result
                error = refusal(outcome, target, address)
                left += await self._waited_for_primary(topic, outcome)
                same = self._may_hold(target, outcome.code, same) if stay else None
                if result is None and outcome.code not in RETRIED_CODES:
                    raise error
            avoid = target.broker_name
        raise error or TimedOut(f"sending to topic {topic!r}", self._config.send_timeout_ms)

    async def _waited_for_primary(self, topic: str, answer: Command) -> int:
        """Pause, and look up the route, when a replica answered: it took nothing, and another broker takes its place.
        Returns how many attempts do not count."""
        remark = answer.remark
        if remark is None or (NOT_PRIMARY not in remark and UNCONFIRMED not in remark):
            return 0
        await self._endpoint.clock.sleep(RETRY_PAUSE_S)
        await self._endpoint.routes.refresh([topic])
        return 1

    async def _queues_again(self, topic: str, deadline: float, before: GantryError | None) -> PublishQueues | None:
        """The queues of the next attempt. None: there are none at the moment, and it paused. ``before``: of an earlier
        attempt. Without one there never were any, which is raised."""
        try:
            return await self.queues(topic, deadline)
        except RouteNotFound as error:
            missing = error  # compiled code must not wait in here
        if before is None:
            raise missing
        await self._endpoint.clock.sleep(RETRY_PAUSE_S)
        return None

    async def _try(
        self, target: MessageQueue, channel: ClientChannel, make_frame: MakeFrame, timeout_ms: int, started: float,
        again: bool,
    ) -> Tried:  # fmt: skip
        if again:
            self.figures.of_sends(target.topic).retried += 1
        opaque = channel.next_opaque()
        try:
            answer = await channel.request(opaque, make_frame(target, opaque), timeout_ms, started)
        except (Unreachable, TimedOut) as failure:
            return Tried(target, channel.address, failure, started)
        self._answered(target.broker_name, started)
        return Tried(target, channel.address, answer, started)

    # The fast path for the first attempt: ``way``, a request, ``settled``. It takes a sixth less time than ``deliver``.

    def way(self, topic: str, queue: MessageQueue | None, now: float) -> tuple[MessageQueue, ClientChannel] | None:
        """The queue and channel of the first attempt; None when ``deliver`` would have to wait for something."""
        publish = self.known_queues(topic)
        if publish is None:
            return None
        target = queue or publish.choose(None, self._faults, now)
        channel = self.ready(target)
        if channel is not None:
            return target, channel
        if queue is None:
            publish.put_back()
        return None

    def settled(self, answer: Command, target: MessageQueue, message_id: str, started: float) -> SendResult | None:
        """The result of the first attempt; None when ``deliver`` must decide how to continue."""
        taken_ms = self._answered(target.broker_name, started)
        result = send_result(answer, target, message_id)
        if result is None or result.status is not _SEND_OK:
            return None
        self._look_up_soon(target.topic)
        sends = self.figures.sends.get(target.topic) or self.figures.of_sends(target.topic)
        sends.cost_ms.observe(taken_ms)
        return result

    def _may_hold(self, target: MessageQueue, code: int, same: str | None) -> str | None:
        """The broker that may have stored the half message after this answer, if there is one. The next messages avoid
        it."""
        if code not in UNCERTAIN_CODES:
            return same
        self.failed(target)
        return target.broker_name

    def _choose(self, publish: PublishQueues, same: str | None, avoid: str | None, now: float) -> MessageQueue:
        """The queue of the next attempt. Raises Unreachable when the broker that may have stored the half message has
        left the cluster."""
        if same is not None:
            if (queue := publish.choose_on(same)) is None:
                raise Unreachable(
                    same, "the half message may be stored on that broker, and the name servers no longer know it"
                )
            return queue
        return publish.choose(avoid, self._faults, now)

    def _settles(self, result: SendResult) -> bool:
        return result.status is SendStatus.SEND_OK or not self._config.retry_when_not_stored_ok

    # Brokers.

    def ready(self, queue: MessageQueue) -> ClientChannel | None:
        """The open channel to the master that holds ``queue``; None when ``channel_to`` must be awaited first."""
        address = self._endpoint.routes.master(queue.broker_name)
        return self._endpoint.ready(address) if address is not None else None

    async def _reach(self, queue: MessageQueue, timeout_ms: int, patient: bool) -> ClientChannel | Unreachable:
        """Connect to the broker of a queue, or return the error. ``patient``: before returning an error, pause, because
        the next attempt will go to the same broker."""
        try:
            return await self.channel_to(queue, timeout_ms)
        except Unreachable as error:
            failure = error  # compiled code must not wait in here
        self.failed(queue)
        if patient:
            await self._endpoint.clock.sleep(RETRY_PAUSE_S)
        return failure

    async def channel_to(self, queue: MessageQueue, timeout_ms: int) -> ClientChannel:
        """The channel to the master that holds ``queue``; raises Unreachable."""
        address = self._endpoint.routes.master(queue.broker_name)
        if address is None:
            await self._endpoint.routes.refresh([queue.topic])
            address = self._endpoint.routes.master(queue.broker_name)
        if address is None:
            raise Unreachable(queue.broker_name, "the name servers know no master of that broker")
        return self._endpoint.ready(address) or await self._endpoint.channel(address, timeout_ms)

    def failed(self, queue: MessageQueue) -> None:
        """A broker could not be reached or did not answer: avoid it for a while, and refresh the route."""
        if self._config.avoid_slow_brokers:
            self._faults.failed(queue.broker_name, self._endpoint.clock.monotonic())
        if self._endpoint.running:
            begins = queue.broker_name not in self._looked_for
            # It may have failed before, and another one may be gone now: then it is looked for as long once more.
            self._looked_for[queue.broker_name] = self._endpoint.clock.monotonic() + LOOKS * LOOK_S
            if begins:
                self._endpoint.tasks.start("route", self._look_for_primary(queue))

    async def _look_for_primary(self, queue: MessageQueue) -> None:
        """Another broker may take the place of one that failed; then nobody waits for the old one any more."""
        routes, name = self._endpoint.routes, queue.broker_name
        before = routes.master(name)
        try:
            while self._endpoint.clock.monotonic() < self._looked_for[name]:
                await routes.refresh([queue.topic])
                if routes.master(name) not in (None, before):
                    if before is not None:
                        self._endpoint.remoting.disconnect(before)
                    break
                await self._endpoint.clock.sleep(LOOK_S)
        finally:
            del self._looked_for[name]

    def _answered(self, broker_name: str, started: float) -> float:
        """Returns how long it took, in ms."""
        now = self._endpoint.clock.monotonic()
        taken_ms = (now - started) * 1000
        if self._config.avoid_slow_brokers:
            self._faults.answered(broker_name, taken_ms, now)
        return taken_ms

    def _stored(self, topic: str, started: float) -> None:
        self._look_up_soon(topic)
        taken_ms = (self._endpoint.clock.monotonic() - started) * 1000
        self.figures.of_sends(topic).cost_ms.observe(taken_ms)

    # Queues.

    async def queues(self, topic: str, deadline: float | None = None) -> PublishQueues:
        """The writable queues of a topic. For a topic that does not exist yet: the queues that it will have. Until the
        ``deadline`` it waits for a broker that has no master, because a replica may be about to become one."""
        known = self.known_queues(topic)
        if known is not None:
            return known
        if deadline is None:
            return self._publish_of(topic, await self.route(topic))
        while True:
            left_s = deadline - self._endpoint.clock.monotonic()
            try:
                return self._publish_of(topic, await within(self._endpoint.clock, left_s, self.route(topic)))
            except TimeoutError as error:
                raise TimedOut(f"looking up topic {topic!r}", self._config.send_timeout_ms) from error
            except RouteNotFound as error:
                missing = error  # compiled code must not wait in here
            if missing.reason is not NO_PRIMARY or left_s <= 2 * RETRY_PAUSE_S:
                raise missing
            await self._endpoint.clock.sleep(RETRY_PAUSE_S)

    def known_queues(self, topic: str) -> PublishQueues | None:
        """The same at once; None: they must be looked up first."""
        route = self._endpoint.routes.known(topic)
        if route is None:
            return None
        entry = self._publish.get(topic)
        if entry is not None and entry[0] is route:
            return entry[1]
        if publish_queues(topic, route):
            return self._publish_of(topic, route)
        self._endpoint.routes.forget(topic)
        return None

    def _publish_of(self, topic: str, route: TopicRoute) -> PublishQueues:
        queues = publish_queues(topic, route)
        if not queues:
            self._endpoint.routes.forget(topic)
            without = any(broker.master is None for broker in route.broker_datas)
            raise RouteNotFound(topic, NO_PRIMARY if without else NOT_WRITABLE)
        # Begin with a random queue, so that producers that start together do not all begin with the same one.
        publish = PublishQueues(queues, self._endpoint.rng.below(len(queues)))
        self._publish[topic] = (route, publish)
        return publish

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic; if it does not exist yet, the route of its template topic."""
        routes = self._endpoint.routes
        try:
            return await routes.get(topic)
        except RouteNotFound as error:
            missing = error  # compiled code must not wait in here
        for template in fallback_topics(topic):
            try:
                made = made_after(await routes.get(template), self._config.default_topic_queue_nums)
            except RouteNotFound:
                continue
            routes.adopt(topic, made)
            self._provisional.add(topic)
            return routes.known(topic) or made
        raise missing

    def _look_up_soon(self, topic: str) -> None:
        if self._provisional and topic in self._provisional and self._endpoint.running:
            self._provisional.discard(topic)
            self._endpoint.tasks.start("new topic", self._look_up(topic))

    async def _look_up(self, topic: str) -> None:
        await self._endpoint.clock.sleep(_ROUTE_SOON_S)
        try:
            await self._endpoint.routes.fetch(topic)
        except GantryError as error:
            log.debug("new topic %s: %s", topic, error)


def made_after(template: TopicRoute, most_queues: int) -> TopicRoute:
    """The route a topic will have once its first message has created it."""
    datas = [
        QueueData(
            broker_name=data.broker_name,
            read_queue_nums=min(most_queues, data.read_queue_nums),
            write_queue_nums=min(most_queues, data.read_queue_nums),
            perm=data.perm,
            topic_sys_flag=data.topic_sys_flag,
        )
        for data in template.queue_datas
    ]
    return TopicRoute(queue_datas=datas, broker_datas=template.broker_datas)


def refusal(answer: Command, queue: MessageQueue, address: str) -> RequestRejected:
    return RequestRejected(answer.code, answer.remark, request=f"message to {queue}", address=address)


def send_result(answer: Command, queue: MessageQueue, message_id: str) -> SendResult | None:
    """The result in a broker's answer to a send; None when the broker refused it."""
    status = _STATUS.get(answer.code)
    if status is None:
        return None
    header = answer.header(SendMessageAnswer)
    if header.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status=status,
        message_id=message_id,
        offset_message_id=header.msg_id,
        queue=queue,
        queue_offset=QueueOffset(header.queue_offset),
        transaction_id=header.transaction_id,
        region=header.region or "DefaultRegion",
        recall_handle=header.recall_handle,
    )
