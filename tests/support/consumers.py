"""A consumer with a connection of its own, which records the requests of the broker."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.heartbeat import ConsumerData, ProducerData, SubscriptionData
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, encode_response
from gantrymq.protocol.headers.consumer import UpdateConsumerOffset
from gantrymq.remoting.channel import ClientChannel
from tests.support.brokers import TIMEOUT_MS, Cluster, new_client, pull_header

Reply = Callable[[Command], tuple[int, bytes]]


class Consumer:
    """A member of a consumer group and of the producer group PG. ``replies``: its answers to the broker, by code."""

    def __init__(self, cluster: Cluster, client_id: str, group: str = "CG") -> None:
        self.cluster = cluster
        self.client_id = client_id
        self.group = group
        self.reported: list[Command] = []
        self.replies: dict[int, Reply] = {}
        self._client = new_client(self._hear)

    def _hear(self, channel: ClientChannel, command: Command) -> None:
        self.reported.append(command)
        reply = self.replies.get(command.code)
        if reply is not None:
            code, body = reply(command)
            channel.send(encode_response(command, code, body=body, remark="as asked"))

    def heard(self, code: int) -> list[Command]:
        return [command for command in self.reported if command.code == code]

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        return await self._client.call(self.cluster.broker.address, code, header, body, timeout_ms=TIMEOUT_MS)

    async def beat(self, *topics: str) -> None:
        consumer = ConsumerData(
            group_name=self.group, subscription_data_set=[SubscriptionData.of_tags(topic, "*", 1) for topic in topics]
        )
        data = HeartbeatData(
            client_id=self.client_id, consumer_data_set=[consumer], producer_data_set=[ProducerData(group_name="PG")]
        )
        assert (await self.ask(RequestCode.HEART_BEAT, body=data.encode())).code == ResponseCode.SUCCESS

    async def pull(self, topic: str, queue_id: int = 0, offset: int = 0, **fields: object) -> Command:
        header = pull_header(topic, queue_id, offset, consumer_group=self.group, **fields)
        return await self.ask(RequestCode.PULL_MESSAGE, header)

    async def commit(self, topic: str, queue_id: int, offset: int) -> Command:
        header = UpdateConsumerOffset(consumer_group=self.group, topic=topic, queue_id=queue_id, commit_offset=offset)
        return await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def close(self) -> None:
        await self._client.close()
