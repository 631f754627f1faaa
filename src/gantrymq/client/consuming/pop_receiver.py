"""Gets messages by POP, from several topics and brokers in turn, and waits for them.

A wait asks each broker to say when there is something to pop (NOTIFICATION), and pops when one does. So a wait that is
given up has taken no message, and no topic waits for another one. Each broker has at most one such question for each
topic, whoever waits here; it stays when its answer is not waited for any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gantrymq.client.config import SimpleConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.filters import Filter
from gantrymq.client.consuming.popping import (
    NOTHING,
    Handles,
    Place,
    ack_request,
    change_request,
    delivery_of,
    notice_request,
    pop_request,
    records_of,
)
from gantrymq.client.consuming.portions import Portions
from gantrymq.client.consuming.send_back import SendBacks
from gantrymq.client.metrics.figures import ClientFigures
from gantrymq.errors import Closed, GantryError, RequestRejected, RouteNotFound, TimedOut, Unreachable
from gantrymq.message import properties
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import normal_topic
from gantrymq.message.tags import parse_tag_expression
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.files.topics import PERM_READ
from gantrymq.protocol.headers.pop import ChangeInvisibleTimeAnswer, NotificationAnswer
from gantrymq.runtime.clock import time_limit

log = logging.getLogger("gantrymq.client")

NOTICE_MS: Final = 10_000
"""How long a broker may hold a question. Then it is asked anew, so that new topics and brokers are seen."""
PAUSE_S: Final = 1.0
"""How long a broker that cannot be asked is left alone."""
AWAY_S: Final = 5.0
"""How long other brokers come first, when one did not answer."""
WAKES_MAX: Final = 8
IN_VAIN_S: Final = 0.01
"""The pause after a broker said twice that there is something, and there was nothing; it doubles each time, WAKES_MAX
times at most."""
GIVEN_BACK_MS: Final = 0
"""When a message is visible again that nobody got."""


class PopReceiver:
    """See above. It belongs to one group, and to the event loop of its endpoint."""

    def __init__(
        self, endpoint: Endpoint, config: SimpleConfig, group: str, filters: Mapping[str, Filter], *, from_start: bool,
        figures: ClientFigures,
    ) -> None:  # fmt: skip
        """``filters``: what is wanted of each topic; it may change at any time."""
        self._endpoint = endpoint
        self._config = config
        self._group = group
        self._filters = filters
        self._from_start = from_start
        self._figures = figures
        self._backs = SendBacks(endpoint, group, -1)
        self._turn = 0
        self._notices: dict[Place, asyncio.Task[bool]] = {}
        """The questions that are open."""
        self._away: dict[str, float] = {}
        """Brokers that failed, and until when others come first."""
        self._receiving = 0

    @property
    def idle(self) -> bool:
        """Whether nobody waits here for messages."""
        return not self._receiving

    def stop(self) -> None:
        """Whoever waits gets Closed; the endpoint accepts no calls any more."""
        for notice in self._notices.values():
            notice.cancel()

    # Receiving.

    async def receive(self, count: int, invisible_ms: int) -> list[MessageView]:
        """Some messages of one topic and broker; none when there were none for ``await_duration_ms``.

        Raises RequestRejected when a broker refuses, and when the time is over what made it impossible to ask anybody.
        """
        self._turn += 1
        self._receiving += 1
        try:
            found = await self._receive(self._turn, count, invisible_ms)
            if found and not self._endpoint.running:
                await asyncio.gather(*map(self._give_back, found))
                self._endpoint.check_usable()
        finally:
            self._receiving -= 1
        return found

    async def _receive(self, turn: int, count: int, invisible_ms: int) -> list[MessageView]:
        clock = self._endpoint.clock
        deadline = clock.monotonic() + self._config.await_duration_ms / 1000
        in_vain = 0
        while True:
            places, failure = await self._places()
            answered = False
            for place in _from(self._healthy(places), turn):
                found = await self._pop(place, count, invisible_ms)
                self._note(place, found)
                if not isinstance(found, GantryError):
                    answered = True
                    if found:
                        return found
                elif isinstance(found, RequestRejected | Closed):
                    raise found
                else:
                    failure = found
                self._endpoint.check_usable()
            remaining = deadline - clock.monotonic()
            if remaining <= 0:
                if failure is not None and not answered:
                    raise failure
                return []
            if in_vain > 1:
                await clock.sleep(min(IN_VAIN_S * 2 ** min(in_vain, WAKES_MAX), remaining))
            in_vain = in_vain + 1 if await self._wait(places, remaining) else 0
            self._endpoint.check_usable()

    def _healthy(self, places: Sequence[Place]) -> Sequence[Place]:
        """Without the brokers that failed a moment ago: others must not wait for these. All, if there are no others."""
        now = self._endpoint.clock.monotonic()
        return [place for place in places if self._away.get(place.broker_name, 0.0) <= now] or places

    def _note(self, place: Place, outcome: object) -> None:
        """Remember how a broker answered."""
        if isinstance(outcome, Unreachable | TimedOut):
            self._away[place.broker_name] = self._endpoint.clock.monotonic() + AWAY_S
        else:
            self._away.pop(place.broker_name, None)

    async def _places(self) -> tuple[list[Place], GantryError | None]:
        """Where to look, and why a topic cannot be found."""
        places: list[Place] = []
        failure: GantryError | None = None
        for topic in sorted(self._filters):
            try:
                route = await self._endpoint.routes.get(topic)
            except (RouteNotFound, Unreachable) as error:
                failure = error
                continue
            names = {data.broker_name for data in route.queue_datas if data.perm & PERM_READ and data.read_queue_nums}
            places += [Place(topic, name) for name in sorted(names)]
        return places, failure

    async def _pop(self, place: Place, count: int, invisible_ms: int) -> list[MessageView] | GantryError:
        """What is there now. When this is cancelled, what the broker gives is given back."""
        task = self._endpoint.tasks.start("pop", self._popped(place, count, invisible_ms))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                return Closed("the wait was given up because the consumer is being closed")
            task.add_done_callback(self._nobody_got)
            raise

    def _nobody_got(self, task: asyncio.Task[list[MessageView] | GantryError]) -> None:
        found = [] if task.cancelled() else task.result()
        if isinstance(found, list):
            self.give_back(found)

    async def _popped(self, place: Place, count: int, invisible_ms: int) -> list[MessageView] | GantryError:
        wanted = self._filters.get(place.topic)
        if wanted is None:
            return []  # its subscription has ended meanwhile
        endpoint = self._endpoint
        header = pop_request(
            self._group, place, count, invisible_ms, wanted, endpoint.clock.wall_ms(), from_start=self._from_start,
            orderly=self._config.orderly,
        )  # fmt: skip
        what = f"receive from {place.topic} on {place.broker_name}"
        try:
            address = self._address(place.broker_name)
            answer = await endpoint.call(address, RequestCode.POP_MESSAGE, header)
            if answer.code in NOTHING:
                return []
            if answer.code != ResponseCode.SUCCESS:
                return RequestRejected(answer.code, answer.remark, request=what, address=address)
            return await self._views(answer, place, wanted)
        except GantryError as error:
            return error

    async def _views(self, answer: Command, place: Place, wanted: Filter) -> list[MessageView]:
        handles = Handles(answer, self._group, place.broker_name)
        queue = MessageQueue(place.topic, place.broker_name, 0)
        portions = Portions(records_of(answer), queue, "*", self._config.max_body_bytes)
        tags = parse_tag_expression(wanted.tags)
        found: list[MessageView] = []
        while not portions.done:
            portion = await portions.next()
            for view in portion.views:
                handles.give(view)
                if tags and view.tags not in tags:  # brokers compare hashes only, and this one would come again
                    self._endpoint.tasks.start("ack", self._pass_over(view))
                else:
                    found.append(view)
            if portion.too_large is not None:
                handles.give(portion.too_large)
                await self._set_aside(portion.too_large)
        figures = self._figures.of_reads(place.topic)
        figures.got([view.store_timestamp for view in found], len(found), self._endpoint.clock.wall_ms())
        return found

    async def _set_aside(self, view: MessageView) -> None:
        try:
            await self._backs.set_aside(view, self._config.max_body_bytes)
            await self.ack(view)
        except GantryError as error:
            log.error("message %s could not be set aside, and comes again: %s", view.message_id, error)

    async def _pass_over(self, view: MessageView) -> None:
        try:
            await self.ack(view)
        except GantryError as error:
            log.debug("message %s, which has another tag, comes again: %s", view.message_id, error)

    # Waiting.

    async def _wait(self, places: Sequence[Place], seconds: float) -> bool:
        """Wait until a broker may have something, for ``seconds`` at most; whether one may have."""
        clock = self._endpoint.clock
        if not places:
            await clock.sleep(min(PAUSE_S, seconds))
            return False
        for place in [place for place in self._notices if place not in places]:
            self._notices.pop(place).cancel()
        for place in places:
            notice = self._notices.get(place)
            if notice is None or notice.done():
                self._notices[place] = self._endpoint.tasks.start("notice", self._noticed(place))
        notices = [self._notices[place] for place in places]
        try:
            async with time_limit(clock, seconds):
                await asyncio.wait(notices, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return False
        return any(notice.done() and not notice.cancelled() and notice.result() for notice in notices)

    async def _noticed(self, place: Place) -> bool:
        """Whether there is something to pop; False: it is time to look again."""
        clock = self._endpoint.clock
        header = notice_request(self._group, place, NOTICE_MS, clock.wall_ms(), orderly=self._config.orderly)
        limit_ms = NOTICE_MS + self._config.call_timeout_ms
        try:
            address = self._address(place.broker_name)
            answer = await self._endpoint.call(address, RequestCode.NOTIFICATION, header, timeout_ms=limit_ms)
            if answer.code == ResponseCode.SUCCESS:
                said = answer.header(NotificationAnswer)
                if said.has_msg or not said.polling_full:
                    return said.has_msg
        except GantryError as error:
            log.debug("waiting for messages of %s on %s: %s", place.topic, place.broker_name, error)
            self._note(place, error)
        await clock.sleep(PAUSE_S)
        await self._endpoint.routes.refresh([place.topic])
        return False

    # Ending and prolonging deliveries.

    async def ack(self, view: MessageView) -> None:
        """The message is consumed. Raises ConfigError, RequestRejected, Unreachable or TimedOut."""
        delivery = delivery_of(view, self._group)
        await self._endpoint.ask(
            lambda: self._endpoint.routes.master(delivery.handle.broker_name), RequestCode.ACK_MESSAGE,
            ack_request(self._group, delivery), what=f"ack of message {view.message_id}",
            topic=normal_topic(view.queue.topic, self._group),
        )  # fmt: skip

    async def change(self, view: MessageView, invisible_ms: int, *, suspend: bool = False) -> None:
        """The message is visible again ``invisible_ms`` from now, and has a new receipt handle. Errors as of
        ``ack``."""
        delivery = delivery_of(view, self._group)
        answer = await self._endpoint.ask(
            lambda: self._endpoint.routes.master(delivery.handle.broker_name),
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
            change_request(self._group, delivery, invisible_ms, suspend=suspend),
            what=f"change of the invisible duration of message {view.message_id}", again=False,
        )  # fmt: skip
        renewed, old = answer.header(ChangeInvisibleTimeAnswer), delivery.handle
        view.properties[properties.POP_CHECK_POINT] = str(
            replace(
                old, pop_time=renewed.pop_time, invisible_time=renewed.invisible_time, revive_queue=renewed.revive_qid,
                start_offset=old.start_offset if old.orderly else old.offset,
            )
        )  # fmt: skip

    def give_back(self, views: Sequence[MessageView]) -> None:
        """Nobody got these messages: let others have them at once."""
        for view in views:
            self._endpoint.tasks.start("give back", self._give_back(view))

    async def _give_back(self, view: MessageView) -> None:
        try:
            await self.change(view, GIVEN_BACK_MS, suspend=True)
        except GantryError as error:
            log.debug("message %s, which nobody got, comes when its time is over: %s", view.message_id, error)

    def _address(self, broker_name: str) -> str:
        address = self._endpoint.routes.master(broker_name)
        if address is None:
            raise Unreachable(broker_name, "the name servers know no master of that broker")
        return address


def _from(places: Sequence[Place], turn: int) -> list[Place]:
    """All places, another one first each time."""
    first = turn % len(places) if places else 0
    return [*places[first:], *places[:first]]
