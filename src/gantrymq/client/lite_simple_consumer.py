"""The lite simple consumer: it receives the messages of some lite topics, and acknowledges each of them.

Source: LiteSimpleConsumer of RocketMQ 5's clients; docs/client.md#lite-topics, docs/protocol.md#lite-topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Unpack

from gantrymq.client.config import SimpleConfig, settings_of
from gantrymq.client.connection.endpoint import Endpoint, decline, every
from gantrymq.client.connection.heartbeat import Heartbeats
from gantrymq.client.connection.lifetime import Lifetime
from gantrymq.client.connection.namespaces import with_namespace, without_namespace
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.client.consuming.filters import EVERYTHING
from gantrymq.client.consuming.lite_popping import (
    LiteHandles,
    lite_ack_request,
    lite_change_request,
    lite_pop_request,
    subscription,
)
from gantrymq.client.consuming.popping import NOTHING, checked_message, delivery_of, records_of
from gantrymq.client.consuming.portions import Portions
from gantrymq.client.consuming.send_back import SendBacks
from gantrymq.client.keywords import SimpleSettings
from gantrymq.client.metrics.registry import CLIENTS
from gantrymq.client.settings_rules import read_setting
from gantrymq.client.simple_consumer import COUNT, INVISIBLE, INVISIBLE_AGAIN
from gantrymq.errors import (
    ConfigError,
    GantryError,
    RemoteProtocolError,
    RequestRejected,
    RouteNotFound,
    TimedOut,
    Unreachable,
)
from gantrymq.message import properties, system_topics
from gantrymq.message.heartbeat import ConsumerData, ConsumeType
from gantrymq.message.lite_topics import check_lite_topic
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.bodies.lite import LiteAction
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.files.topics import PERM_READ
from gantrymq.protocol.headers.lite import NotifyUnsubscribeLite
from gantrymq.protocol.headers.pop import ChangeInvisibleTimeAnswer
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")

REPEAT_MS: Final = 30_000
"""How often brokers are told all subscriptions; they forget a client that is silent for 180 s."""
HOLD_MS: Final = 2_000
"""How long the only broker of the topic may hold a pop. A message that somebody gives back does not wake one, and the
pop of a ``receive`` that was cancelled stays there for this time."""
SHORT_HOLD_MS: Final = 500
"""The same where the topic has several brokers, which take turns."""
PAUSE_S: Final = 1.0
"""How long nobody is asked when no broker could be."""


class LiteSimpleConsumer(Lifetime):
    """``subscribe_lite`` some lite topics below one topic of type LITE; ``receive`` their messages, and ``ack`` each.

    The group must be bound to the topic (``lite.bind.topic``). Messages of one lite topic come in their order: while
    somebody has some of them in hand, nobody gets the next ones. What was not acknowledged comes again when its
    invisible duration is over. Brokers must be of 5.5, or GantryMQ's. The consumer belongs to the event loop and
    process in which it was started.
    """

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        name_servers: str | Iterable[str],
        outside: Outside | None = None,
        **settings: Unpack[SimpleSettings],
    ) -> None:
        """``topic``: the one below which the lite topics are. ``settings``: fields of SimpleConfig, but ``orderly``."""
        config = self._config = settings_of(SimpleConfig, name_servers, settings)
        system_topics.check_group(group)
        system_topics.check_topic(topic)
        if config.orderly:
            raise ConfigError("the messages of a lite topic always come in order; leave out orderly")
        self.group = with_namespace(config.namespace, group)
        self._topic = with_namespace(config.namespace, topic)
        endpoint = self._endpoint = Endpoint(
            type(self).__name__, config, default_outside() if outside is None else outside, pushes=self._pushed,
            greet=self._greet,
        )  # fmt: skip
        self._heartbeats = Heartbeats(endpoint, self._beat, endpoint.routes.addresses)
        self._figures = CLIENTS.made(endpoint.life, self.group)
        self._backs = SendBacks(endpoint, self.group, -1)
        self._wanted: set[str] = set()
        self._since = endpoint.clock.wall_ms()
        self._turn = 0

    @property
    def lite_topics(self) -> frozenset[str]:
        """Those that are subscribed. A broker may end a subscription, if it allows one client for each lite topic."""
        return frozenset(self._wanted)

    async def start(self) -> None:
        """Join the group. Raises Unreachable when no name server answers. Brokers and the topic may still be
        missing."""
        endpoint = self._endpoint
        if endpoint.running:
            return
        endpoint.start()
        try:
            try:
                await endpoint.routes.fetch(self._topic)
            except RouteNotFound:
                log.info("topic %s does not exist yet", self._topic)
            await self._heartbeats.send()
            endpoint.check_usable()  # the consumer may have been closed meanwhile
        except BaseException:
            await endpoint.close()
            raise
        self._heartbeats.start()
        endpoint.tasks.start("lite topics", every(endpoint.clock, REPEAT_MS, self._repeat, "lite topics"))

    async def close(self) -> None:
        """Leave the group; ``receive`` raises Closed. Messages in hand that were not acknowledged come again when
        their time is over. May be called again. A ``close`` that is cancelled continues in the background."""
        if self._endpoint.started:
            self._endpoint.stop_accepting()
            await self._endpoint.close(self._leave)

    async def _leave(self) -> None:
        if self._wanted:
            await self._ask_all(LiteAction.COMPLETE_REMOVE, ())
        await self._heartbeats.unregister(consumer_group=self.group)

    # Subscriptions.

    async def subscribe_lite(self, lite_topic: str) -> None:
        """Receive messages of a lite topic, which need not exist yet. Raises MessageIllegal for a name that is none,
        RequestRejected when a broker refuses (the group is not bound to the topic, or has its quota), and
        RouteNotFound, Unreachable or TimedOut when no broker could be asked."""
        check_lite_topic(lite_topic)
        self._endpoint.check_usable()
        if lite_topic not in self._wanted:
            await self._tell(LiteAction.PARTIAL_ADD, (lite_topic,))
            self._wanted.add(lite_topic)

    async def unsubscribe_lite(self, lite_topic: str) -> None:
        """Receive no more messages of a lite topic. Errors as of ``subscribe_lite``."""
        check_lite_topic(lite_topic)
        self._endpoint.check_usable()
        if lite_topic in self._wanted:
            self._wanted.discard(lite_topic)
            await self._tell(LiteAction.PARTIAL_REMOVE, (lite_topic,))

    async def _tell(self, action: LiteAction, lite_topics: Sequence[str]) -> None:
        """Tell all brokers of the topic. One that is away hears of it with the next repetition."""
        await self._endpoint.routes.get(self._topic)
        failures = [error for error in await self._ask_all(action, lite_topics) if error is not None]
        refused = [error for error in failures if isinstance(error, RequestRejected)]
        if refused or len(failures) == len(self._brokers()):
            raise (refused or failures or [Unreachable(self._topic, "no broker has this topic")])[0]

    async def _ask_all(self, action: LiteAction, lite_topics: Iterable[str]) -> list[GantryError | None]:
        body = subscription(
            action, self._endpoint.client_id, self.group, self._topic, lite_topics, self._endpoint.clock.wall_ms()
        )
        return list(await asyncio.gather(*(self._ask(name, body) for name in self._brokers())))

    async def _ask(self, broker_name: str, body: bytes) -> GantryError | None:
        try:
            address = self._address(broker_name)
            answer = await self._endpoint.call(address, RequestCode.LITE_SUBSCRIPTION_CTL, None, body)
        except GantryError as error:
            return error
        if answer.code != ResponseCode.SUCCESS:
            what = f"lite topics of {self._topic} on {broker_name}"
            return RequestRejected(answer.code, answer.remark, request=what, address=address)
        return None

    async def _repeat(self) -> None:
        for error in await self._ask_all(LiteAction.COMPLETE_ADD, self._wanted) if self._wanted else ():
            if error is not None:
                log.info("a broker was not told which lite topics are read: %s", error)

    def _greet(self, channel: ClientChannel) -> None:
        """A broker that comes back may have forgotten everything."""
        self._heartbeats.greet(channel)
        if self._wanted and self._endpoint.running:
            self._endpoint.tasks.start("lite topics again", self._repeat())

    def _pushed(self, channel: ClientChannel, command: Command) -> None:
        """A broker says that another client has a lite topic now."""
        if command.code != RequestCode.NOTIFY_UNSUBSCRIBE_LITE:
            decline(channel, command)
            return
        try:
            said = command.header(NotifyUnsubscribeLite)
        except RemoteProtocolError as error:
            log.warning("a notification of the broker at %s cannot be read: %s", channel.address, error)
            return
        if said.consumer_group == self.group and said.client_id == self._endpoint.client_id:
            self._wanted.discard(said.lite_topic)
            log.info("another client of group %s reads the lite topic %s now", self.group, said.lite_topic)

    # Receiving.

    async def receive(self, max_message_num: int, invisible_duration_ms: int) -> list[MessageView]:
        """Up to ``max_message_num`` (32 at most) messages, which are invisible to others for
        ``invisible_duration_ms``. The list is empty when there were none for ``await_duration_ms``. Brokers take
        turns.

        A cancelled ``receive`` has taken no messages: what a broker has given by then is visible again at once. Raises
        ConfigError when no lite topic is subscribed; RequestRejected; and RouteNotFound, Unreachable or TimedOut when
        no broker could be asked for ``await_duration_ms``.
        """
        endpoint = self._endpoint
        endpoint.check_usable()
        read_setting("max_message_num", max_message_num, COUNT)
        read_setting("invisible_duration_ms", invisible_duration_ms, INVISIBLE)
        if not self._wanted:
            raise ConfigError("no lite topic is subscribed; call subscribe_lite(lite_topic) before receive")
        self._turn += 1
        return await self._receive(int(max_message_num), int(invisible_duration_ms))

    async def _receive(self, count: int, invisible_ms: int) -> list[MessageView]:
        clock = self._endpoint.clock
        deadline = clock.monotonic() + self._config.await_duration_ms / 1000
        hold_ms = 0  # the first round looks everywhere
        while True:
            failure, answered = await self._routed(), False
            brokers = self._brokers()
            for number in range(len(brokers)):
                left_ms = max(0, int((deadline - clock.monotonic()) * 1000))
                name = brokers[(self._turn + number) % len(brokers)]
                found = await self._pop(name, count, invisible_ms, min(hold_ms, left_ms))
                self._endpoint.check_usable()
                if isinstance(found, RequestRejected):
                    raise found
                if isinstance(found, GantryError):
                    failure = found
                elif found:
                    return found
                else:
                    answered = True
            if clock.monotonic() >= deadline:
                if failure is not None and not answered:
                    raise failure
                return []
            if not answered:
                await clock.sleep(min(PAUSE_S, max(0.0, deadline - clock.monotonic())))
            hold_ms = HOLD_MS if len(brokers) == 1 else SHORT_HOLD_MS

    async def _routed(self) -> GantryError | None:
        try:
            await self._endpoint.routes.get(self._topic)
        except (RouteNotFound, Unreachable, TimedOut) as error:
            return error
        return None

    def _brokers(self) -> list[str]:
        route = self._endpoint.routes.known(self._topic)
        datas = () if route is None else route.queue_datas
        return sorted({data.broker_name for data in datas if data.perm & PERM_READ})

    async def _pop(
        self, broker_name: str, count: int, invisible_ms: int, poll_ms: int
    ) -> list[MessageView] | GantryError:
        """What there is, or comes within ``poll_ms``. When this is cancelled, what the broker gives is given back."""
        task = self._endpoint.tasks.start("pop", self._popped(broker_name, count, invisible_ms, poll_ms))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._endpoint.check_usable()
            task.add_done_callback(self._nobody_got)
            raise

    def _nobody_got(self, task: asyncio.Task[list[MessageView] | GantryError]) -> None:
        found = [] if task.cancelled() else task.result()
        if isinstance(found, list):
            self.give_back(found)

    async def _popped(
        self, broker_name: str, count: int, invisible_ms: int, poll_ms: int
    ) -> list[MessageView] | GantryError:
        endpoint = self._endpoint
        header = lite_pop_request(
            endpoint.client_id, self.group, self._topic, broker_name, count, invisible_ms, poll_ms,
            endpoint.clock.wall_ms(),
        )  # fmt: skip
        try:
            address = self._address(broker_name)
            limit_ms = poll_ms + self._config.call_timeout_ms
            answer = await endpoint.call(address, RequestCode.POP_LITE_MESSAGE, header, timeout_ms=limit_ms)
            if answer.code in NOTHING:
                return []
            if answer.code != ResponseCode.SUCCESS:
                what = f"receive from {self._topic} on {broker_name}"
                return RequestRejected(answer.code, answer.remark, request=what, address=address)
            return await self._views(answer, broker_name)
        except GantryError as error:
            return error

    async def _views(self, answer: Command, broker_name: str) -> list[MessageView]:
        handles = LiteHandles(answer, self._topic, broker_name)
        portions = Portions(
            records_of(answer), MessageQueue(self._topic, broker_name, 0), "*", self._config.max_body_bytes
        )
        found: list[MessageView] = []
        while not portions.done:
            portion = await portions.next()
            for view in portion.views:
                handles.give(view)
                view.topic = without_namespace(self._config.namespace, view.topic)
                found.append(view)
            if portion.too_large is not None:
                handles.give(portion.too_large)
                await self._set_aside(portion.too_large)
        figures = self._figures.of_reads(self._topic)
        figures.got([view.store_timestamp for view in found], len(found), self._endpoint.clock.wall_ms())
        return found

    async def _set_aside(self, view: MessageView) -> None:
        try:
            await self._backs.set_aside(view, self._config.max_body_bytes)
            await self.ack(view)
        except GantryError as error:
            log.error("message %s could not be set aside, and comes again: %s", view.message_id, error)

    # Ending and prolonging deliveries.

    async def ack(self, message: MessageView) -> None:
        """The message is consumed and does not come again, if its invisible duration is not over. Repeated while its
        broker is away, for ``call_timeout_ms``. Raises ConfigError for anything that ``receive`` has not returned,
        RequestRejected, Unreachable or TimedOut."""
        self._endpoint.check_usable()
        view = checked_message(message)
        handle = delivery_of(view, self.group).handle
        await self._endpoint.ask(
            lambda: self._endpoint.routes.master(handle.broker_name), RequestCode.ACK_MESSAGE,
            lite_ack_request(self.group, self._topic, view.lite_topic or "", handle),
            what=f"ack of message {view.message_id}", topic=self._topic,
        )  # fmt: skip
        self._figures.of_reads(self._topic).consumed += 1

    async def change_invisible_duration(self, message: MessageView, invisible_duration_ms: int) -> None:
        """The message is invisible for ``invisible_duration_ms`` from now on; 0: it comes again at once. ``message``
        has a new receipt handle then. When the delivery has ended it changes nothing. Errors as of ``ack``. It is not
        repeated."""
        self._endpoint.check_usable()
        view = checked_message(message)
        read_setting("invisible_duration_ms", invisible_duration_ms, INVISIBLE_AGAIN)
        await self._change(view, int(invisible_duration_ms), suspend=False)

    async def _change(self, view: MessageView, invisible_ms: int, *, suspend: bool) -> None:
        handle = delivery_of(view, self.group).handle
        answer = await self._endpoint.ask(
            lambda: self._endpoint.routes.master(handle.broker_name), RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
            lite_change_request(
                self.group, self._topic, view.lite_topic or "", handle, invisible_ms, suspend=suspend
            ),
            what=f"change of the invisible duration of message {view.message_id}", again=False,
        )  # fmt: skip
        renewed = answer.header(ChangeInvisibleTimeAnswer)
        view.properties[properties.POP_CHECK_POINT] = str(
            replace(
                handle, pop_time=renewed.pop_time, invisible_time=renewed.invisible_time,
                revive_queue=renewed.revive_qid,
            )
        )  # fmt: skip

    def give_back(self, messages: Sequence[MessageView]) -> None:
        """Messages that ``receive`` returned and the program never got: they are visible again at once. It does not
        wait; call it on the event loop."""
        if self._endpoint.running:
            for view in messages:
                self._endpoint.tasks.start("give back", self._give_back(view))

    async def _give_back(self, view: MessageView) -> None:
        try:
            await self._change(view, 0, suspend=True)
        except GantryError as error:
            log.debug("message %s, which nobody got, comes when its time is over: %s", view.message_id, error)

    def _address(self, broker_name: str) -> str:
        address = self._endpoint.routes.master(broker_name)
        if address is None:
            raise Unreachable(broker_name, "the name servers know no master of that broker")
        return address

    def _beat(self) -> HeartbeatData:
        consumer = ConsumerData(
            group_name=self.group, consume_type=ConsumeType.POP, unit_mode=False,
            subscription_data_set=[EVERYTHING.subscription(self._topic, self._since)],
        )  # fmt: skip
        return HeartbeatData(client_id=self._endpoint.client_id, consumer_data_set=[consumer])
