"""QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401), GET_ALL_MESSAGE_REQUEST_MODE (402).

Source: QueryAssignmentProcessor, TopicRouteInfoManager.
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pop.assignment import STRATEGIES, assign, readable_queues
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.request_modes import RequestModes
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import RETRY_PREFIX
from gantrymq.protocol.bodies.heartbeat import MessageModel
from gantrymq.protocol.bodies.pop import Assignment, GroupRequestMode, QueryAssignment, QueryAssignmentAnswer
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.bodies.topics import PERM_READ
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker")

ROUTE_SECONDS: Final = 5.0
"""How long a route is used before the name server is asked again; clients ask for their queues every 20 s."""
ROUTE_TIMEOUT_MS: Final = 2_000
MAX_ROUTES: Final = 10_000
"""Routes that are remembered; beyond it all are forgotten and asked for again."""


class AssignmentProcessor:
    """Shares out queues of all brokers among the members of a group that are connected here."""

    def __init__(
        self, config: LiveConfig, topics: Topics, groups: Groups, consumers: ConsumerGroups, modes: RequestModes,
        client: RemotingClient, clock: Clock,
    ) -> None:  # fmt: skip
        self._config = config
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._modes = modes
        self._client = client
        self._clock = clock
        self._routes: dict[str, tuple[float, list[MessageQueue]]] = {}
        self._tasks = TaskGroupOwner("assignment")

    async def close(self) -> None:
        await self._tasks.stop()

    def query(self, session: ClientSession, command: Command) -> bytes | None:
        wanted = QueryAssignment.decode(command.body)
        known = self._routes.get(wanted.topic)
        if known is not None and known[0] > self._clock.monotonic():
            return self._answer(command, wanted, known[1])
        self._tasks.start("route", self._ask(session, command, wanted))
        return None

    async def _ask(self, session: ClientSession, command: Command, wanted: QueryAssignment) -> None:
        queues = await self._queues(wanted.topic)
        session.send(self._answer(command, wanted, queues))

    async def _queues(self, topic: str) -> list[MessageQueue]:
        """Of all brokers; of this one alone while no name server can be asked."""
        for name_server in self._config.network.name_servers:
            try:
                answer = await self._client.call(
                    name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic), timeout_ms=ROUTE_TIMEOUT_MS
                )
                if answer.code != ResponseCode.SUCCESS:
                    continue
                queues = readable_queues(topic, TopicRoute.decode(answer.body))
            except GantryError as error:
                log.warning("name server %s does not tell the route of %s: %s", name_server, topic, error)
                continue
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

    def _answer(self, command: Command, wanted: QueryAssignment, queues: list[MessageQueue]) -> bytes:
        mode = self._modes.get(wanted.topic, wanted.consumer_group)
        shared = self._share(wanted, queues, mode)
        assignments = None
        if shared is not None:
            assignments = [Assignment(message_queue=queue, mode=mode.mode) for queue in shared]
        body = QueryAssignmentAnswer(message_queue_assignments=assignments).encode()
        return encode_response(command, ResponseCode.SUCCESS, body=body)

    def _share(
        self, wanted: QueryAssignment, queues: list[MessageQueue], mode: GroupRequestMode
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

    def set_mode(self, session: ClientSession, command: Command) -> bytes:
        mode = GroupRequestMode.decode(command.body)
        if mode.topic.startswith(RETRY_PREFIX):
            raise Refused(Refusal.NOT_PERMITTED, "retry topic is not allowed to set mode")
        if not self._topics.exists(mode.topic):
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{mode.topic}] not exist")
        if self._groups.find(mode.consumer_group) is None:
            raise Refused(Refusal.GROUP_UNKNOWN, "subscription group does not exist")
        self._modes.set(mode)
        return encode_response(command, ResponseCode.SUCCESS)

    def all_modes(self, session: ClientSession, command: Command) -> bytes:
        return encode_response(command, ResponseCode.SUCCESS, body=self._modes.table().encode())
