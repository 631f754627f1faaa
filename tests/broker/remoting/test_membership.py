"""Heartbeats, departures, notices, locks over real sockets."""

from __future__ import annotations

from pathlib import Path

from gantrymq.message.heartbeat import ConsumerData, MessageModel, ProducerData, SubscriptionData
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.heartbeat import ConsumerIdList, HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.consumer import ConsumerListByGroup, UnregisterClient
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.remoting.channel import ClientChannel
from gantrymq.remoting.client import RemotingClient
from tests.support.brokers import TIMEOUT_MS, Cluster, new_client, on_broker, until


class Peer:
    """A client that records the notifications it gets."""

    def __init__(self, cluster: Cluster, client_id: str) -> None:
        self.cluster = cluster
        self.client_id = client_id
        self.notices: list[Command] = []
        self.client: RemotingClient = new_client(self._reported)

    def _reported(self, channel: ClientChannel, command: Command) -> None:
        self.notices.append(command)

    async def ask(self, code: int, header: object = None, body: bytes = b"") -> Command:
        return await self.client.call(self.cluster.broker.address, code, header, body, timeout_ms=TIMEOUT_MS)  # type: ignore[arg-type]

    async def beat(self, *topics: str, version: int = 1, model: MessageModel = MessageModel.CLUSTERING) -> Command:
        data = ConsumerData(
            group_name="CG",
            message_model=model,
            subscription_data_set=[SubscriptionData.of_tags(topic, "*", version) for topic in topics],
        )
        heartbeat = HeartbeatData(
            client_id=self.client_id, consumer_data_set=[data], producer_data_set=[ProducerData(group_name="PG")]
        )
        answer = await self.ask(RequestCode.HEART_BEAT, body=heartbeat.encode())
        assert answer.code == ResponseCode.SUCCESS
        return answer


async def members(c: Cluster) -> list[str] | None:
    answer = await c.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListByGroup(consumer_group="CG"))
    return None if answer.code else ConsumerIdList.decode(answer.body).consumer_id_list


def test_members_come_and_go_and_everybody_is_told(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert await members(c) is None, "a group with nobody online is answered with an error"
        one, two = Peer(c, "one"), Peer(c, "two")
        await one.beat("T")
        assert await members(c) == ["one"]
        await until(lambda: len(one.notices) == 1)
        assert (one.notices[0].code, one.notices[0].is_one_way) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, True)
        assert one.notices[0].ext_fields() == {"consumerGroup": "CG"}
        await two.beat("T")
        assert await members(c) == ["one", "two"]
        await until(lambda: len(one.notices) == 2 and len(two.notices) == 1)
        await two.beat("T", version=99)
        await one.beat("T")
        assert (len(one.notices), len(two.notices)) == (2, 1), "the same topics are no news"
        await two.beat("T", "U")
        await until(lambda: len(one.notices) == 3 and len(two.notices) == 2)
        gone = UnregisterClient(client_id="two", consumer_group="CG")
        assert (await two.ask(RequestCode.UNREGISTER_CLIENT, gone)).code == ResponseCode.SUCCESS
        await until(lambda: len(one.notices) == 4)
        assert await members(c) == ["one"]
        await one.client.close()
        await until(lambda: c.broker.consumers.get("CG") is None)
        await two.client.close()

    on_broker(work, tmp_path)


def test_a_heartbeat_makes_the_retry_topic_and_says_what_is_supported(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        peer = Peer(c, "one")
        answer = await peer.beat("T")
        assert answer.ext_fields() == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
        retry = c.broker.topics.get("%RETRY%CG")
        assert retry is not None and (retry.read_queue_nums, retry.perm) == (1, 6)
        await peer.client.close()

    on_broker(work, tmp_path)


def test_the_retry_topic_has_a_route_when_the_first_heartbeat_is_answered(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert c.name_server is not None
        peer = Peer(c, "one")
        await peer.beat("T")
        route = await c.client.call(
            c.name_server.address,
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            GetRoute(topic="%RETRY%CG"),
            timeout_ms=TIMEOUT_MS,
        )
        assert route.code == ResponseCode.SUCCESS
        await peer.client.close()

    on_broker(work, tmp_path, with_name_server=True)


def test_the_second_version_of_the_heartbeat_keeps_the_subscriptions(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        peer = Peer(c, "one")
        await peer.beat("T")
        short = HeartbeatData(
            client_id="one", consumer_data_set=[ConsumerData(group_name="CG")], heartbeat_fingerprint=7,
            without_sub=True,
        )  # fmt: skip
        await peer.ask(RequestCode.HEART_BEAT, body=short.encode())
        group = c.broker.consumers.get("CG")
        assert group is not None and list(group.subscriptions) == ["T"]
        await peer.client.close()

    on_broker(work, tmp_path)


def test_broadcasting_groups_have_no_retry_topic_and_get_no_notice(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        one, two = Peer(c, "one"), Peer(c, "two")
        await one.beat("T", model=MessageModel.BROADCASTING)
        await two.beat("T", model=MessageModel.BROADCASTING)
        assert await members(c) == ["one", "two"]
        assert c.broker.topics.get("%RETRY%CG") is None
        assert one.notices == []
        await one.client.close()
        await two.client.close()

    on_broker(work, tmp_path)


def test_malformed_heartbeats_are_refused(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for body in (b"", b"{", b"[]", b'{"clientID":""}', b'{"clientID":"x","producerDataSet":[5]}'):
            answer = await c.ask(RequestCode.HEART_BEAT, body=body)
            assert answer.code == ResponseCode.SYSTEM_ERROR, body
            assert answer.remark

    on_broker(work, tmp_path)


def test_a_producer_is_known_from_its_heartbeat_to_its_end(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        joined: list[str] = []
        c.broker.producers.joined.append(joined.append)
        peer = Peer(c, "one")
        await peer.beat("T")
        await peer.beat("T")
        assert joined == ["PG"], "told once, not for every heartbeat"
        session = c.broker.producers.pick("PG")
        assert session is not None and c.broker.producers.is_member("PG", session)
        await peer.client.close()
        await until(lambda: c.broker.producers.pick("PG") is None)
        assert c.broker.producers.groups() == []

    on_broker(work, tmp_path)


def test_queues_are_locked_for_one_member_at_a_time(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        queues = [MessageQueue("T", "broker-a", number) for number in range(2)]

        async def lock(client_id: str, wanted: list[MessageQueue]) -> list[MessageQueue]:
            body = LockBatch(client_id=client_id, consumer_group="CG", mq_set=wanted).encode()
            answer = await c.ask(RequestCode.LOCK_BATCH_MQ, body=body)
            return LockBatchAnswer.decode(answer.body).lock_ok_mq_set

        assert await lock("one", queues[:1]) == queues[:1]
        assert await lock("two", queues) == queues[1:]
        assert await lock("one", queues) == queues[:1], "renewed"
        release = LockBatch(client_id="one", consumer_group="CG", mq_set=queues)
        assert (await c.ask(RequestCode.UNLOCK_BATCH_MQ, body=release.encode())).code == ResponseCode.SUCCESS
        assert await lock("two", queues) == queues

    on_broker(work, tmp_path)
