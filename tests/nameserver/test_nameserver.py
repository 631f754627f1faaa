"""The name server over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from zlib import crc32

import pytest

from gantrymq.errors import ConfigError, Unreachable
from gantrymq.message.versions import VERSION
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.kv_config import KVConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.bodies.route import ClusterInfo, QueueData, TopicRoute
from gantrymq.protocol.bodies.topics import KVTable, TopicList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.files.topics import DataVersion, TopicConfig, TopicTable
from gantrymq.protocol.headers import nameserver as headers
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.limits.values import Limits
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng

BROKER = "127.0.0.1:10911"


def run(scenario: Callable[[NameServer, RemotingClient], Awaitable[None]], **settings: object) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20), running(**settings) as (server, client):
            await scenario(server, client)

    asyncio.run(bounded())


@contextlib.asynccontextmanager
async def running(**settings: object) -> AsyncIterator[tuple[NameServer, RemotingClient]]:
    config = NameServerConfig(listen_host="127.0.0.1", listen_port=0, **settings)  # type: ignore[arg-type]
    server = NameServer(config, TcpNetwork(), SystemClock(), OsDisk())
    client = RemotingClient(TcpNetwork(), SystemClock(), SystemRng())
    await server.start()
    try:
        yield server, client
    finally:
        await client.close()
        await server.close()


def body_of(*topics: str, counter: int = 1) -> RegisterBrokerBody:
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicTable(
            data_version=DataVersion(counter=counter, timestamp=1),
            topic_config_table={name: TopicConfig(topic_name=name) for name in topics},
        )
    )


async def register(
    client: RemotingClient, server: NameServer, body: bytes, *, compressed: bool = False, crc: int | None = None
) -> Command:
    header = headers.RegisterBroker(
        broker_name="broker-a", broker_addr=BROKER, cluster_name="C", ha_server_addr="127.0.0.1:10912", broker_id=0,
        compressed=compressed, body_crc32=crc32(body) & 0x7FFFFFFF if crc is None else crc,
    )  # fmt: skip
    return await client.call(server.address, RequestCode.REGISTER_BROKER, header, body, timeout_ms=5000)


async def ask(
    client: RemotingClient, server: NameServer, code: int, header: object = None, body: bytes = b""
) -> Command:
    return await client.call(server.address, code, header, body, timeout_ms=5000)  # type: ignore[arg-type]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_broker_registers_and_clients_find_it(compressed: bool) -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        body = body_of("T", "U")
        encoded = body.encode_compressed(VERSION) if compressed else body.encode()
        assert (await register(client, server, encoded, compressed=compressed)).code == ResponseCode.SUCCESS
        answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
        assert answer.code == ResponseCode.SUCCESS
        assert b" " not in answer.body, "Go clients split the text of brokerAddrs and need it without blanks"
        assert json.loads(answer.body)["brokerDatas"][0]["brokerAddrs"] == {"0": BROKER}
        assert TopicRoute.decode(answer.body).queue_datas[0].broker_name == "broker-a"
        clusters = ClusterInfo.decode((await ask(client, server, RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert clusters.cluster_addr_table == {"C": ["broker-a"]}
        topics = await ask(client, server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert sorted(TopicList.decode(topics.body).topic_list) == ["T", "U"]
        of_cluster = await ask(client, server, RequestCode.GET_TOPICS_BY_CLUSTER, headers.ClusterOnly(cluster="C"))
        assert sorted(TopicList.decode(of_cluster.body).topic_list) == ["T", "U"]

    run(scenario)


def test_an_unknown_topic_is_said_so() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="nope"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert answer.remark is not None and "nope" in answer.remark

    run(scenario)


def test_a_damaged_registration_is_refused() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        assert (await register(client, server, body_of("T").encode(), crc=1)).code == ResponseCode.SYSTEM_ERROR
        assert (await register(client, server, b"not json")).code == ResponseCode.SYSTEM_ERROR
        assert (await register(client, server, b"\x00" * 9, compressed=True)).code == ResponseCode.SYSTEM_ERROR
        answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST

    run(scenario)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_of_many_topics_is_whole_or_refused(compressed: bool) -> None:
    """It is read in steps; one topic that cannot be read refuses all."""

    async def scenario(server: NameServer, client: RemotingClient) -> None:
        names = [f"T{number}" for number in range(3_000)]

        def encoded(body: RegisterBrokerBody) -> bytes:
            return body.encode_compressed(VERSION) if compressed else body.encode()

        good, bad = encoded(body_of(*names)), encoded(body_of(*names, "two words"))
        if not compressed:
            bad = good.replace(b'"T2999"', b"2999")
        answer = await register(client, server, bad, compressed=compressed)
        assert answer.code == ResponseCode.SYSTEM_ERROR and "malformed" in (answer.remark or ""), answer.remark
        assert (await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T0"))).code == 17
        assert (await register(client, server, good, compressed=compressed)).code == ResponseCode.SUCCESS
        for name in (names[0], names[-1]):
            answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic=name))
            assert answer.code == ResponseCode.SUCCESS

    run(scenario)


def test_the_end_of_the_connection_is_the_end_of_the_registration() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        broker = RemotingClient(TcpNetwork(), SystemClock(), SystemRng())
        await register(broker, server, body_of("T").encode())
        await broker.close()

        async def gone() -> bool:
            answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
            return answer.code == ResponseCode.TOPIC_NOT_EXIST

        await until(gone)

    run(scenario)


def test_goodbye_and_silence_take_a_broker_out() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        await register(client, server, body_of("T").encode())
        goodbye = headers.UnregisterBroker(
            broker_name="broker-a", broker_addr=BROKER, cluster_name="C", broker_id=0
        )  # fmt: skip
        assert (await ask(client, server, RequestCode.UNREGISTER_BROKER, goodbye)).code == ResponseCode.SUCCESS
        answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        header = headers.RegisterBroker(
            broker_name="broker-a", broker_addr=BROKER, cluster_name="C", ha_server_addr="", broker_id=0,
            heartbeat_timeout_millis=1,
        )  # fmt: skip
        await ask(client, server, RequestCode.REGISTER_BROKER, header, body_of("T").encode())

        async def expired() -> bool:
            answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
            return answer.code == ResponseCode.TOPIC_NOT_EXIST

        await until(expired)

    run(scenario, scan_interval_seconds=0.01)


def test_a_broker_asks_whether_its_registration_is_current() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        question = headers.QueryDataVersion(broker_name="broker-a", broker_addr=BROKER, cluster_name="C", broker_id=0)
        version = DataVersion(counter=1, timestamp=1)
        unknown = await ask(client, server, RequestCode.QUERY_DATA_VERSION, question, version.encode())
        assert (unknown.ext_fields(), unknown.body) == ({"changed": "true"}, b"")
        await register(client, server, body_of("T").encode())
        same = await ask(client, server, RequestCode.QUERY_DATA_VERSION, question, version.encode())
        assert same.ext_fields() == {"changed": "false"}
        assert DataVersion.decode(same.body) == version
        newer = await ask(client, server, RequestCode.QUERY_DATA_VERSION, question, version.next(5).encode())
        assert newer.ext_fields() == {"changed": "true"}

    run(scenario)


def test_key_values_survive_a_restart_and_ordered_topics_go_to_brokers(tmp_path: Path) -> None:
    path = str(tmp_path / "namesrv" / "kvConfig.json")

    async def write(server: NameServer, client: RemotingClient) -> None:
        put = headers.PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        assert (await ask(client, server, RequestCode.PUT_KV_CONFIG, put)).code == ResponseCode.SUCCESS

    async def read(server: NameServer, client: RemotingClient) -> None:
        key = headers.NamespacedKey(namespace="ORDER_TOPIC_CONFIG", key="T")
        answer = await ask(client, server, RequestCode.GET_KV_CONFIG, key)
        assert answer.ext_fields() == {"value": "broker-a:4"}
        registered = await register(client, server, body_of("T").encode())
        assert KVTable.decode(registered.body).table == {"T": "broker-a:4"}
        route = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
        assert TopicRoute.decode(route.body).order_topic_conf == "broker-a:4"
        space = headers.NamespaceOnly(namespace="ORDER_TOPIC_CONFIG")
        listed = await ask(client, server, RequestCode.GET_KVLIST_BY_NAMESPACE, space)
        assert KVTable.decode(listed.body).table == {"T": "broker-a:4"}
        await ask(client, server, RequestCode.DELETE_KV_CONFIG, key)
        assert (await ask(client, server, RequestCode.GET_KV_CONFIG, key)).code == ResponseCode.QUERY_NOT_FOUND
        assert (
            await ask(client, server, RequestCode.GET_KVLIST_BY_NAMESPACE, space)
        ).code == ResponseCode.QUERY_NOT_FOUND

    run(write, kv_config_path=path)
    run(read, kv_config_path=path, order_message_enable=True)


def test_an_unreadable_key_value_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("{broken")
    with pytest.raises(ConfigError, match=r"kvConfig\.json"):
        KVConfig(OsDisk(), str(path))
    assert path.read_text() == "{broken"


def test_write_permission_and_topic_deletion() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        await register(client, server, body_of("T").encode())
        name = headers.BrokerNameOnly(broker_name="broker-a")
        wiped = await ask(client, server, RequestCode.WIPE_WRITE_PERM_OF_BROKER, name)
        assert wiped.ext_fields() == {"wipeTopicCount": "1"}
        added = await ask(client, server, RequestCode.ADD_WRITE_PERM_OF_BROKER, name)
        assert added.ext_fields() == {"addTopicCount": "1"}
        await ask(client, server, RequestCode.DELETE_TOPIC_IN_NAMESRV, headers.DeleteTopicInNameServer(topic="T"))
        answer = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="T"))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST

    run(scenario)


def test_a_port_in_use_is_named() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        port = split_address(server.address)[1]
        second = NameServer(
            NameServerConfig(listen_host="127.0.0.1", listen_port=port), TcpNetwork(), SystemClock(), OsDisk()
        )
        with pytest.raises(Unreachable, match=str(port)):
            await second.start()
        await second.close()

    run(scenario)


def test_requests_it_does_not_know_or_that_miss_a_field_are_answered() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        unknown = await ask(client, server, 424242)
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        incomplete = await ask(client, server, RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert incomplete.code == ResponseCode.SYSTEM_ERROR
        assert incomplete.remark is not None and "topic" in incomplete.remark

    run(scenario)


def test_lists_of_topics_and_what_tools_declare() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        async def ask(code: int, header: object = None, body: bytes = b"") -> Command:
            return await client.call(server.address, code, header, body, timeout_ms=5000)  # type: ignore[arg-type]

        async def listed(code: RequestCode) -> list[str]:
            return TopicList.decode((await ask(code)).body).topic_list

        table = {
            name: TopicConfig(topic_name=name, topic_sys_flag=flag)
            for name, flag in (("plain", 0), ("unit", 1), ("sub", 2), ("both", 3))
        }
        body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicTable(topic_config_table=table)).encode()
        header = headers.RegisterBroker(
            broker_name="b", broker_addr=BROKER, cluster_name="C", ha_server_addr="", broker_id=0
        )
        await ask(RequestCode.REGISTER_BROKER, header, body)
        assert sorted(await listed(RequestCode.GET_UNIT_TOPIC_LIST)) == ["both", "unit"]
        assert sorted(await listed(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)) == ["both", "sub"]
        assert await listed(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["sub"]
        system = TopicList.decode((await ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body)
        assert (system.topic_list, system.broker_addr) == (["C", "b"], BROKER)
        queues = [
            QueueData(broker_name=name, read_queue_nums=2, write_queue_nums=2, perm=6) for name in ("b", "unknown")
        ]
        declared = headers.TopicInNameServer(topic="declared")
        await ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, declared, TopicRoute(queue_datas=queues).encode())
        answer = await ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRoute(topic="declared"))
        assert [queue.broker_name for queue in TopicRoute.decode(answer.body).queue_datas] == ["b"]

    run(scenario)


def test_settings_are_shown_and_changed() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        async def update(text: bytes) -> Command:
            return await client.call(server.address, RequestCode.UPDATE_NAMESRV_CONFIG, body=text, timeout_ms=5000)

        async def shown() -> bytes:
            return (await client.call(server.address, RequestCode.GET_NAMESRV_CONFIG, timeout_ms=5000)).body

        assert b"orderMessageEnable=false\n" in await shown()
        assert (await update(b"orderMessageEnable=true\nlistenPort=0\n")).code == ResponseCode.SUCCESS
        assert b"orderMessageEnable=true\n" in await shown()
        for refused in (b"noSuch=1", b"listenPort=7", b"orderMessageEnable=perhaps"):
            answer = await update(refused)
            assert answer.code == ResponseCode.INVALID_PARAMETER and answer.remark

    run(scenario)


OTHER = "127.0.0.1:10921"


def header_of(address: str, broker_id: int = 0) -> headers.RegisterBroker:
    return headers.RegisterBroker(
        broker_name="broker-a", broker_addr=address, cluster_name="C", ha_server_addr="", broker_id=broker_id
    )


async def addresses(client: RemotingClient, server: NameServer) -> dict[int, str]:
    clusters = ClusterInfo.decode((await ask(client, server, RequestCode.GET_BROKER_CLUSTER_INFO)).body)
    found = clusters.broker_addr_table.get("broker-a")
    return found.broker_addrs if found is not None else {}


def test_a_second_broker_of_the_same_name_and_id_is_refused_while_the_first_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        first, second = (RemotingClient(TcpNetwork(), SystemClock(), SystemRng()) for _ in range(2))
        body = body_of("T", "U").encode()
        for _ in range(2):
            answer = await ask(first, server, RequestCode.REGISTER_BROKER, header_of(BROKER), body)
            assert answer.code == ResponseCode.SUCCESS
            refused = await ask(second, server, RequestCode.REGISTER_BROKER, header_of(OTHER), body)
            assert refused.code == ResponseCode.SYSTEM_ERROR, "as Apache's name servers refuse"
            assert refused.remark is not None and BROKER in refused.remark and "brokerName" in refused.remark
        slave = await ask(second, server, RequestCode.REGISTER_BROKER, header_of("127.0.0.1:10931", 1), body)
        assert slave.code == ResponseCode.SUCCESS, "another id is another broker"
        assert await addresses(client, server) == {0: BROKER, 1: "127.0.0.1:10931"}
        said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(said) == 1 and BROKER in said[0] and OTHER in said[0], "once, not at each try"

        goodbye = headers.UnregisterBroker(
            broker_name="broker-a", broker_addr=OTHER, cluster_name="C", broker_id=0
        )  # fmt: skip
        assert (await ask(second, server, RequestCode.UNREGISTER_BROKER, goodbye)).code == ResponseCode.SUCCESS
        assert (await addresses(client, server))[0] == BROKER, "who was refused takes nobody out"

        await first.close()

        async def taken() -> bool:
            answer = await ask(second, server, RequestCode.REGISTER_BROKER, header_of(OTHER), body)
            return answer.code == ResponseCode.SUCCESS

        await until(taken)
        assert (await addresses(client, server))[0] == OTHER
        await second.close()

    run(scenario)


def test_the_limits_of_connections_count_here_and_may_change() -> None:
    async def scenario(server: NameServer, client: RemotingClient) -> None:
        assert (await ask(client, server, RequestCode.GET_NAMESRV_CONFIG)).code == 0
        others = [RemotingClient(TcpNetwork(), SystemClock(), SystemRng()) for _ in range(2)]
        assert (await ask(others[0], server, RequestCode.GET_NAMESRV_CONFIG)).code == 0
        with pytest.raises(Unreachable):
            await ask(others[1], server, RequestCode.GET_NAMESRV_CONFIG)
        assert server.client_limits.refused(Reason.CONNECTIONS) >= 1
        changed = await ask(client, server, RequestCode.UPDATE_NAMESRV_CONFIG, body=b"maxConnectionsPerHost=3")
        assert changed.code == 0
        assert (await ask(others[1], server, RequestCode.GET_NAMESRV_CONFIG)).code == 0
        for each in others:
            await each.close()

    run(scenario, limits=Limits(connections_of_client=2))
