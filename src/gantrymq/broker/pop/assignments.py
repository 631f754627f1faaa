"""Who reads which queue of which broker: the broker shares queues out among the members of a group.

Source: QueryAssignmentProcessor, TopicRouteInfoManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.allocation import STRATEGIES, assign
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.request_modes import RequestModes
from gantrymq.broker.registries.topics import Topics
from gantrymq.message.heartbeat import MessageModel
from gantrymq.message.pop import Assignment, AssignmentQuery
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import RETRY_PREFIX
from gantrymq.protocol.files.request_modes import GroupRequestMode, RequestModeTable
from gantrymq.protocol.files.topics import PERM_READ
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker")

ROUTE_SECONDS: Final = 5.0
"""How long a route is used before the name server is asked again; clients ask for their queues every 20 s."""
MAX_ROUTES: Final = 10_000
"""Routes that are remembered; beyond it all are forgotten and asked for again."""

AssignmentDone: TypeAlias = Callable[[Sequence[Assignment] | None], None]
"""Called with the queues of a member; with None when nothing can be said, and the member keeps what it has."""


class RouteSource(Protocol):
    """Knows the queues of all brokers."""

    async def readable_queues(self, topic: str) -> list[MessageQueue] | None:
        """Queues that can be read; None when no name server could be asked."""


class Assignments:
    """Shares out queues of all brokers among the members of a group that are connected here."""

    def __init__(
        self, config: LiveConfig, topics: Topics, groups: Groups, consumers: ConsumerGroups, modes: RequestModes,
        routes: RouteSource, clock: Clock,
    ) -> None:  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._modes = modes
        self._source = routes
        self._clock = clock
        self._routes: dict[str, tuple[float, list[MessageQueue]]] = {}
        self._tasks = TaskGroupOwner("assignment")

    async def close(self) -> None:
        """Stop asking for routes; who waits for one gets no answer."""
        await self._tasks.stop()

    def query(self, wanted: AssignmentQuery, done: AssignmentDone) -> None:
        """The queues of a member, at once or later, when the route has to be asked for."""
        known = self._routes.get(wanted.topic)
        if known is not None and known[0] > self._clock.monotonic():
            done(self._assigned(wanted, known[1]))
        else:
            self._tasks.start("route", self._ask(wanted, done))

    async def _ask(self, wanted: AssignmentQuery, done: AssignmentDone) -> None:
        done(self._assigned(wanted, await self._queues(wanted.topic)))

    async def _queues(self, topic: str) -> list[MessageQueue]:
        """Of all brokers; of this one alone while no name server can be asked."""
        queues = await self._source.readable_queues(topic)
        if queues is not None:
            if len(self._routes) >= MAX_ROUTES:
                self._routes.clear()
            self._routes[topic] = (self._clock.monotonic() + ROUTE_SECONDS, queues)
            return queues
        if topic in self._routes:
            return self._routes[topic][1]
        own = self._topics.get(topic)
        if own is None or not own.perm & PERM_READ:
            return []
        return [MessageQueue(topic, self._config.identity.broker_name, number) for number in range(own.read_queue_nums)]

    def _assigned(self, wanted: AssignmentQuery, queues: list[MessageQueue]) -> list[Assignment] | None:
        mode = self._modes.get(wanted.topic, wanted.consumer_group)
        shared = self._share(wanted, queues, mode)
        return None if shared is None else [Assignment(message_queue=queue, mode=mode.mode) for queue in shared]

    def _share(
        self, wanted: AssignmentQuery, queues: list[MessageQueue], mode: GroupRequestMode
    ) -> list[MessageQueue] | None:
        """None when nothing can be said: the client keeps what it has."""
        if not queues:
            return None
        if wanted.message_model is MessageModel.BROADCASTING or not self._config.pop.server_load_balancer_enable:
            return queues
        members = self._consumers.client_ids(wanted.consumer_group)
        strategy = STRATEGIES.get(wanted.strategy_name)
        if not members or strategy is None:
            log.warning(
                "no assignment of %s for %s of group %s: %s", wanted.topic, wanted.client_id, wanted.consumer_group,
                f"unknown strategy {wanted.strategy_name}" if members else "the group is not connected",
            )  # fmt: skip
            return None
        return assign(strategy, wanted.client_id, queues, members, mode)

    def set_mode(self, mode: GroupRequestMode) -> None:
        """A group shall read a topic by pulls or by pops. Raises Refused."""
        if mode.topic.startswith(RETRY_PREFIX):
            raise Refused(Refusal.NOT_PERMITTED, "retry topic is not allowed to set mode")
        if not self._topics.exists(mode.topic):
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{mode.topic}] not exist")
        if self._groups.find(mode.consumer_group) is None:
            raise Refused(Refusal.GROUP_UNKNOWN, "subscription group does not exist")
        self._modes.set(mode)

    def modes(self) -> RequestModeTable:
        """How groups read topics, where somebody said so."""
        return self._modes.table()
