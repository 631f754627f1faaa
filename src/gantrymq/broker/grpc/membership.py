"""Telemetry, Heartbeat and NotifyClientTermination. Source: ClientActivity; docs/grpc.md#settings.

Producers of gRPC have no group. As in Apache's proxy, one is a member of a group for each of its topics, which has the
name of the topic; half messages that it sends bear that name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from gantrymq.access.operations import JOIN, SEND
from gantrymq.broker.grpc.calls import Caller, Calls, failed
from gantrymq.broker.grpc.clients import UNSENT_MAX, GrpcClient, GrpcClients
from gantrymq.broker.grpc.consumers import consumer_of
from gantrymq.broker.grpc.incoming import check_group, check_topic
from gantrymq.broker.grpc.local import NEW_GROUP
from gantrymq.broker.grpc.messaging import Messaging
from gantrymq.broker.grpc.settings import answer_of
from gantrymq.broker.grpc.statuses import REFUSED, Rejected, ok
from gantrymq.grpc.definition_pb2 import Code, Settings
from gantrymq.grpc.service_pb2 import (
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
    TelemetryCommand,
)
from gantrymq.grpc.serving.call import Requests
from gantrymq.grpc.serving.methods import Context
from gantrymq.message.heartbeat import Heartbeat, ProducerData
from gantrymq.runtime.clock import Clock

FIRST_WORD_SECONDS: Final = 3.0


class Membership:
    """What clients say about themselves, and what they are told."""

    def __init__(self, clock: Clock, messaging: Messaging, clients: GrpcClients, calls: Calls) -> None:
        self._clock = clock
        self._messaging = messaging
        self._clients = clients
        self._calls = calls

    async def telemetry(self, requests: Requests, context: Context) -> AsyncIterator[TelemetryCommand]:
        """The stream on which a client says its settings, and gets commands; it lasts as long as the client."""
        try:
            caller = self._calls.caller(context)
        except REFUSED as refused:
            # The client writes first: a stream that ended before that would hide the reason from it.
            timer = self._clock.call_later(FIRST_WORD_SECONDS, requests.end)
            async for _ in requests:
                break
            timer.cancel()
            yield TelemetryCommand(status=failed(refused))
            return
        # Some clients wait for the headers before they say anything.
        context.begin()
        client = caller.client
        commands = client.open_stream()
        reading = asyncio.create_task(self._read(caller, requests, commands))
        try:
            while (command := await commands.get()) is not None:
                yield command
        finally:
            reading.cancel()
            client.close_stream(commands)

    async def _read(
        self,
        caller: Caller,
        requests: Requests,
        commands: asyncio.Queue[TelemetryCommand | None],
    ) -> None:
        try:
            async for said in requests:
                if not said.HasField("settings"):
                    caller.client.answered(said)
                    continue
                if commands.qsize() >= UNSENT_MAX:  # it speaks, and reads nothing
                    break
                try:
                    answer = TelemetryCommand(status=ok(), settings=await self._settings(caller, said.settings))
                except REFUSED as refused:
                    commands.put_nowait(TelemetryCommand(status=failed(refused)))
                    break
                commands.put_nowait(answer)
        finally:
            commands.put_nowait(None)

    async def _settings(self, caller: Caller, said: Settings) -> Settings:
        client, rules = caller.client, NEW_GROUP
        if said.HasField("subscription"):
            group = check_group(said.subscription.group.name)
            topics = tuple(check_topic(entry.topic.name) for entry in said.subscription.subscriptions)
            caller.demand(JOIN, topics, (group,))
        elif said.HasField("publishing"):
            topics = tuple(check_topic(topic.name) for topic in said.publishing.topics)
            caller.demand(SEND, topics)
            client.topics.update(topics)
        else:
            raise Rejected(Code.BAD_REQUEST, "the settings say neither what is published nor what is subscribed to")
        client.settings = said
        await self._beat(client)
        if said.HasField("subscription"):
            rules = await self._messaging.group(said.subscription.group.name)
        messaging = self._messaging
        return answer_of(
            said, messaging.body_max, rules.attempts, fifo=rules.in_order, checks_type=messaging.checks_types,
            lite_quota=rules.lite_quota,
        )  # fmt: skip

    async def heartbeat(self, caller: Caller, request: HeartbeatRequest) -> HeartbeatResponse:
        """OK also when the client has not said its settings yet: the next ones complete it."""
        await self._beat(caller.client)
        return HeartbeatResponse(status=ok())

    async def _beat(self, client: GrpcClient) -> None:
        settings, consumers = client.settings, []
        if settings is not None and client.is_consumer:
            consumers.append(consumer_of(settings, self._clock.wall_ms()))
        data = Heartbeat(
            client_id=client.client_id,
            producer_data_set=[ProducerData(group_name=topic) for topic in sorted(client.topics)],
            consumer_data_set=consumers,
        )
        await self._messaging.join(client, data)

    async def sends_halves_to(self, client: GrpcClient, topic: str) -> None:
        """A producer may use a topic that its settings do not name: it is asked about its half messages, too."""
        if topic not in client.topics:
            client.topics.add(topic)
            await self._beat(client)

    async def terminated(
        self, caller: Caller, request: NotifyClientTerminationRequest
    ) -> NotifyClientTerminationResponse:
        """The client says goodbye."""
        self._clients.drop(caller.client)
        return NotifyClientTerminationResponse(status=ok())
