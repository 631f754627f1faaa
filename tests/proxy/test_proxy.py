"""A proxy before two brokers, over real sockets. Official clients are in ``tests/interop``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest

from gantrymq.broker.pop.holds import HeldDelivery
from gantrymq.client.connection.endpoint import Outside
from gantrymq.demo.ports import free_port
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import Code, Message, MessageType, Permission, TransactionResolution
from gantrymq.message import flags
from gantrymq.message.receipt_handle import parse
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.headers.consumer import ConsumerListByGroup
from gantrymq.protocol.headers.tools import ProducerGroupOnly
from gantrymq.protocol.stored_message import scan
from gantrymq.proxy import proxy as proxy_module
from gantrymq.proxy.config import ProxyConfig
from gantrymq.proxy.proxy import Proxy
from gantrymq.proxy.transactions import place_in
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from tests.support.brokers import Cluster, cluster, until
from tests.support.grpc_client import GrpcClient, consumer, message, producer, resource

COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK
HALF = "TRAN_MSG\x01true\x02PGROUP\x01orders\x02UNIQ_KEY\x01half-1\x02"
QUICK = {"transaction_time_out": 200, "transaction_check_interval": 200}


@dataclass
class Before:
    """Two brokers, and proxies before them."""

    brokers: tuple[Cluster, Cluster]
    doors: dict[str, str]
    """The gRPC door of each broker."""
    stack: AsyncExitStack

    async def proxy(self) -> GrpcClient:
        """One more proxy, and a client that is connected to it."""
        return (await self.started())[1]

    async def started(self) -> tuple[Proxy, GrpcClient]:
        name_server = self.brokers[0].name_server
        assert name_server is not None
        config = ProxyConfig(name_servers=(name_server.address,), bind="127.0.0.1", grpc_port=0)
        proxy = Proxy(config, Outside())
        address = await proxy.start()
        self.stack.push_async_callback(proxy.close)
        channel = await self.stack.enter_async_context(grpc.aio.insecure_channel(address))
        return proxy, GrpcClient(channel)


@asynccontextmanager
async def two_brokers(root: Path, **settings: object) -> AsyncIterator[Before]:
    ports = {name: free_port() for name in ("broker-a", "broker-b")}
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        brokers: list[Cluster] = []
        for name, port in ports.items():
            where = {"namesrv_addr": brokers[0].name_server.address} if brokers else {"with_name_server": True}  # type: ignore[union-attr]
            made = cluster(root / name, broker_name=name, grpc_port=port, **where, **settings)  # type: ignore[arg-type]
            brokers.append(await stack.enter_async_context(made))
            await brokers[-1].create_topic("orders", queues=2)
        doors = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        async with AsyncExitStack() as proxies:
            yield Before((brokers[0], brokers[1]), doors, proxies)


def story(work: Callable[[Before, GrpcClient], Awaitable[None]], root: Path, **settings: object) -> None:
    async def play() -> None:
        async with two_brokers(root, **settings) as before:
            client = await before.proxy()
            await until_routed(client)
            await work(before, client)

    asyncio.run(play())


async def until_routed(client: GrpcClient) -> None:
    """The name server knows the topic on both brokers."""

    async def both() -> bool:
        return len({queue.broker.name for queue in (await route(client)).message_queues}) == 2

    await until(both)


async def route(client: GrpcClient) -> service.QueryRouteResponse:
    request = service.QueryRouteRequest(topic=resource("orders"))
    return await client.call("QueryRoute", request, service.QueryRouteResponse)


async def half(client: GrpcClient) -> tuple[str, str]:
    """Message id and transaction id."""
    answer = await client.send(message("orders", b"paid", message_type=MessageType.TRANSACTION))
    assert answer.status.code == Code.OK, answer.status
    return answer.entries[0].message_id, answer.entries[0].transaction_id


async def received(client: GrpcClient, count: int, group: str = "group", **fields: object) -> list[Message]:
    """So many messages, of both brokers."""
    got: list[Message] = []
    while len(got) < count:
        got += (await client.receive("orders", group, **fields))[1]  # type: ignore[arg-type]
    return got


@pytest.mark.slow
def test_messages_go_to_all_brokers_and_come_back_as_they_were_sent(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        for number in range(4):
            sent = message("orders", str(number).encode(), tag="a", keys=["k1", "k2"])
            sent.user_properties["mine"] = "yes"
            assert (await client.send(sent)).status.code == Code.OK
        got = await received(client, 4)
        assert {one.body for one in got} == {b"0", b"1", b"2", b"3"}
        assert {parse(one.system_properties.receipt_handle).broker_name for one in got} == {"broker-a", "broker-b"}
        assert all(dict(one.user_properties) == {"mine": "yes"} for one in got)
        assert all(one.system_properties.tag == "a" and one.system_properties.keys == ["k1", "k2"] for one in got)
        answer = await client.ack("orders", *got)
        assert [entry.status.code for entry in answer.entries] == [Code.OK] * 4
        for _ in range(2):
            assert (await client.receive("orders"))[0].code == Code.MESSAGE_NOT_FOUND

    story(work, tmp_path)


def test_a_route_has_the_queues_of_all_brokers_under_one_address(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        queues = (await route(client)).message_queues
        assert sorted((queue.broker.name, queue.id) for queue in queues) == [
            ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)
        ]  # fmt: skip
        assert {queue.permission for queue in queues} == {Permission.READ_WRITE}
        assert len({str(queue.broker.endpoints) for queue in queues}) == 1
        request = service.QueryAssignmentRequest(topic=resource("orders"), group=resource("group"))
        answer = await client.call("QueryAssignment", request, service.QueryAssignmentResponse)
        assert [(one.message_queue.broker.name, one.message_queue.id) for one in answer.assignments] == [
            ("broker-a", -1), ("broker-b", -1)
        ]  # fmt: skip
        unknown = service.QueryRouteRequest(topic=resource("unknown"))
        assert (await client.call("QueryRoute", unknown, service.QueryRouteResponse)).status.code == (
            Code.TOPIC_NOT_FOUND
        )
        assert (await client.send(message("unknown"))).status.code == Code.TOPIC_NOT_FOUND

    story(work, tmp_path)


def test_a_transaction_ends_through_any_proxy_and_again(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        committed, rolled_back, other = await half(client), await half(client), await half(client)
        assert {place_in(one[1]).broker_name for one in (committed, other)} <= {"broker-a", "broker-b"}  # type: ignore[union-attr]
        second = await before.proxy()
        assert (await second.end("orders", *committed, COMMIT)).code == Code.OK
        assert (await client.end("orders", *committed, COMMIT)).code == Code.OK
        assert (await client.end("orders", *committed, ROLLBACK)).code == Code.INVALID_TRANSACTION_ID
        assert (await second.end("orders", *rolled_back, ROLLBACK)).code == Code.OK
        assert (
            await client.end("orders", *other, TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED)
        ).code == Code.OK
        assert (await client.end("orders", "x", "unknown", COMMIT)).code == Code.INVALID_TRANSACTION_ID
        assert (await client.end("orders", "x", "999.999.broker-a", COMMIT)).code == Code.INVALID_TRANSACTION_ID
        assert (await client.end("orders", other[0], other[0], COMMIT)).code == Code.OK, "by its message id alone"
        assert len(await received(client, 2)) == 2
        assert (await client.receive("orders"))[0].code == Code.MESSAGE_NOT_FOUND

    story(work, tmp_path)


def test_the_door_of_a_broker_ends_what_a_proxy_began(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        ids = await half(client)
        place = place_in(ids[1])
        assert place is not None
        async with grpc.aio.insecure_channel(before.doors[place.broker_name]) as channel:
            door = GrpcClient(channel)
            assert (await door.end("orders", *ids, COMMIT)).code == Code.OK
            assert (await door.end("orders", *ids, ROLLBACK)).code == Code.INVALID_TRANSACTION_ID
        assert len(await received(client, 1)) == 1

    story(work, tmp_path)


def test_a_check_of_any_broker_reaches_a_producer_of_the_topic_whoever_sent_the_half(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        for broker in before.brokers:
            await broker.sent("orders", b"by remoting", HALF, sys_flag=flags.PREPARED, producer_group="orders")
        async with client.telemetry(producer("orders")):
            for _ in before.brokers:
                asked = (await client.commands.get()).recover_orphaned_transaction_command
                assert asked.message.body == b"by remoting"
                assert asked.message.topic.name == "orders"
                assert asked.message.system_properties.message_type == MessageType.TRANSACTION
                ids = (asked.message.system_properties.message_id, asked.transaction_id)
                assert (await client.end("orders", *ids, COMMIT, source=2)).code == Code.OK
        assert len(await received(client, 2)) == 2

    story(work, tmp_path, **QUICK)


def test_brokers_forget_the_producers_that_a_proxy_has_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gantrymq.proxy.proxy.LOOK_SECONDS", 0.1)

    async def work(before: Before, client: GrpcClient) -> None:
        async def members() -> int:
            header = ProducerGroupOnly(producer_group="orders")
            asked = [await one.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, header) for one in before.brokers]
            return sum(answer.code == ResponseCode.SUCCESS for answer in asked)

        async def has(count: int) -> bool:
            return await members() == count

        async with client.telemetry(producer("orders")):
            await until(lambda: has(2))
        goodbye = service.NotifyClientTerminationRequest()
        await client.call("NotifyClientTermination", goodbye, service.NotifyClientTerminationResponse)
        await until(lambda: has(0))

    story(work, tmp_path)


def test_a_receipt_handle_works_at_another_proxy_and_a_change_makes_a_new_one(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await client.send(message("orders"))
        (got,) = await received(client, 1)
        second = await before.proxy()
        changed = await made_visible(second, got)
        assert changed.status.code == Code.OK
        assert changed.receipt_handle != got.system_properties.receipt_handle
        (again,) = await received(client, 1)
        assert again.system_properties.delivery_attempt == 2
        assert again.body == got.body
        answer = await second.ack("orders", again)
        assert answer.entries[0].status.code == Code.OK

    story(work, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("others", [1, 0])
def test_what_a_proxy_renews_is_ended_at_any_door_with_its_first_handle(tmp_path: Path, others: int) -> None:
    """``others``: further messages of the same pop, which are in hand, too, and have the same check point at first."""

    async def work(before: Before, client: GrpcClient) -> None:
        first, at_first = await before.started()
        for number in range(3 * (1 + others)):
            await client.send(message("orders", str(number).encode()))
        got: list[Message] = []
        while len(got) < 3 * (1 + others):
            got += (await at_first.receive("orders", seconds=0.2, renew=True))[1]
        await until(lambda: len(held(before)) == len(got))
        await first.close()
        assert all(one.hold.elsewhere for one in held(before)), "the doors of the brokers leave them alone"
        for one in got[::3]:
            assert (await client.ack("orders", one)).entries[0].status.code == Code.OK
        for one in got[1::3]:
            place = parse(one.system_properties.receipt_handle).broker_name
            async with grpc.aio.insecure_channel(before.doors[place]) as channel:
                assert (await GrpcClient(channel).ack("orders", one)).entries[0].status.code == Code.OK
        for one in got[2::3]:
            changed = await made_visible(client, one)
            assert changed.status.code == Code.OK
        assert held(before) == []
        again = await received(client, len(got) // 3)
        assert {one.body for one in again} == {one.body for one in got[2::3]}
        assert (await client.receive("orders"))[0].code == Code.MESSAGE_NOT_FOUND

    story(work, tmp_path)


def held(before: Before) -> list[HeldDelivery]:
    return [one for broker in before.brokers for one in broker.broker.popping.consumption.held()]


async def made_visible(client: GrpcClient, one: Message) -> service.ChangeInvisibleDurationResponse:
    request = service.ChangeInvisibleDurationRequest(
        group=resource("group"), topic=resource("orders"), receipt_handle=one.system_properties.receipt_handle
    )
    request.invisible_duration.seconds = 0
    return await client.call("ChangeInvisibleDuration", request, service.ChangeInvisibleDurationResponse)


@pytest.mark.slow
def test_an_acknowledgement_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await client.send(message("orders", b"1"))
        (got,) = await received(client, 1, invisible=0.3)
        (again,) = await received(client, 1)
        answer = await client.ack("orders", got)
        assert answer.entries[0].status.code == Code.INVALID_RECEIPT_HANDLE
        assert (await client.ack("orders", again)).entries[0].status.code == Code.OK

    story(work, tmp_path)


@pytest.mark.slow
def test_a_group_in_order_gets_nothing_more_of_a_message_group_while_one_is_in_flight(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        for broker in before.brokers:
            body = Group(group_name="ordered", consume_message_orderly=True).encode()
            answer = await broker.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
            assert answer.code == ResponseCode.SUCCESS
        for number in range(3):
            one = message("orders", str(number).encode(), message_type=MessageType.FIFO, message_group="m")
            assert (await client.send(one)).status.code == Code.OK
        got: list[bytes] = []
        while len(got) < 3:
            for name in ("broker-a", "broker-b"):
                _, found = await of_broker(client, name, "ordered")
                if not found:
                    continue
                _, nothing = await of_broker(client, name, "ordered")
                assert nothing == []
                assert found[0].system_properties.message_group == "m"
                got.append(found[0].body)
                await client.ack("orders", *found, group="ordered")
        assert got == [b"0", b"1", b"2"]

    story(work, tmp_path)


async def of_broker(client: GrpcClient, broker: str, group: str) -> tuple[object, list[Message]]:
    request = service.ReceiveMessageRequest(group=resource(group), batch_size=1)
    request.message_queue.topic.name, request.message_queue.id = "orders", -1
    request.message_queue.broker.name = broker
    request.filter_expression.expression = "*"
    request.invisible_duration.seconds = 30
    request.long_polling_timeout.nanos = 100_000_000
    method = client.channel.unary_stream(
        "/apache.rocketmq.v2.MessagingService/ReceiveMessage", service.ReceiveMessageRequest.SerializeToString,
        service.ReceiveMessageResponse.FromString,
    )  # fmt: skip
    parts = [part async for part in method(request, timeout=10, metadata=client.headers)]
    return parts[0].status, [part.message for part in parts if part.HasField("message")]


def test_a_delayed_message_is_recalled(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        one = message("orders", b"late", message_type=MessageType.DELAY)
        one.system_properties.delivery_timestamp.seconds = int(time.time()) + 3600
        entry = (await client.send(one)).entries[0]
        assert entry.recall_handle
        request = service.RecallMessageRequest(topic=resource("orders"), recall_handle=entry.recall_handle)
        answer = await client.call("RecallMessage", request, service.RecallMessageResponse)
        assert (answer.status.code, answer.message_id) == (Code.OK, entry.message_id)

    story(work, tmp_path, recall_message_enable=True)


def test_a_priority_comes_back_from_a_topic_without_a_type(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        one = message("orders", b"urgent", message_type=MessageType.PRIORITY, priority=1)
        assert (await client.send(one)).status.code == Code.OK
        (got,) = await received(client, 1)
        system = got.system_properties
        assert (system.message_type, system.priority, got.body) == (MessageType.PRIORITY, 1, b"urgent")

    story(work, tmp_path)


async def given_up(client: GrpcClient, got: Message, handle: str = "") -> int:
    """The code of the answer."""
    system = got.system_properties
    request = service.ForwardMessageToDeadLetterQueueRequest(
        group=resource("group"), topic=resource("orders"), receipt_handle=handle or system.receipt_handle,
        message_id=system.message_id, delivery_attempt=1, max_delivery_attempts=1,
    )  # fmt: skip
    answer = await client.call(
        "ForwardMessageToDeadLetterQueue", request, service.ForwardMessageToDeadLetterQueueResponse
    )
    return int(answer.status.code)


async def dead_letters(before: Before) -> list[bytes]:
    pulled = [await broker.pull("%DLQ%group") for broker in before.brokers]
    return [record.body for answer in pulled if answer.body for record in scan(answer.body)]


@pytest.mark.slow
def test_a_message_goes_to_the_dead_letters_once_through_any_number_of_proxies(tmp_path: Path) -> None:
    """One of them comes for the first time, the other one has come back and lies in the retry topic."""

    async def work(before: Before, client: GrpcClient) -> None:
        second = await before.proxy()
        await client.send(message("orders", b"bad"))
        (got,) = await received(client, 1)
        assert [await given_up(door, got) for door in (client, second, client)] == [Code.OK] * 3
        await client.send(message("orders", b"worse"))
        (first,) = await received(client, 1)
        await made_visible(client, first)
        (again,) = await received(second, 1)
        assert again.system_properties.delivery_attempt == 2
        assert [await given_up(door, again) for door in (second, client)] == [Code.OK] * 2

        async def both_are_dead() -> bool:
            return sorted(await dead_letters(before)) == [b"bad", b"worse"]

        await until(both_are_dead)
        assert (await client.receive("orders"))[0].code == Code.MESSAGE_NOT_FOUND

    story(work, tmp_path)


def test_a_handle_with_the_place_of_another_message_gives_nothing_up(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await client.send(message("orders", b"bad"))
        (got,) = await received(client, 1)
        handle = got.system_properties.receipt_handle.split(" ")
        forged = " ".join([*handle[:-1], str(int(handle[-1]) + 1)])
        assert await given_up(client, got, forged) == Code.BAD_REQUEST
        assert await dead_letters(before) == []

    story(work, tmp_path)


@pytest.mark.slow
def test_who_gives_up_a_call_that_waits_leaves_its_messages_to_others(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        waiting = [asyncio.create_task(client.receive("orders", seconds=8, invisible=60)) for _ in range(2)]
        await asyncio.sleep(0.3)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.sleep(0.1)
        await client.send(message("orders", b"1"))
        await client.send(message("orders", b"2"))
        assert {one.body for one in await received(client, 2)} == {b"1", b"2"}

    story(work, tmp_path)


def test_consumers_of_a_proxy_share_no_queues_with_those_of_remoting(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        async with client.telemetry(consumer("group", "orders")) as answer:
            assert answer.status.code == Code.OK
            assert answer.settings.subscription.receive_batch_size == 32
            asked = await before.brokers[0].ask(
                RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListByGroup(consumer_group="group")
            )
            assert asked.code != ResponseCode.SUCCESS

    story(work, tmp_path)


def test_a_call_that_finds_its_broker_away_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """To connect needs a task, which a call does not have: such calls were answered as defects of the proxy."""

    async def work(before: Before, client: GrpcClient) -> None:
        ids = await half(client)
        _, got = await client.receive("orders", seconds=0)
        assert got == []
        for broker in before.brokers:
            await broker.broker.close()
        ended = await client.end("orders", *ids, COMMIT)
        sent = [(await client.send(message("orders", b"1"))).entries[0].status for _ in before.brokers]
        received = [(await client.receive("orders", seconds=0))[0] for _ in before.brokers]
        for status in (ended, *sent, *received):
            assert (status.code, "cannot reach" in status.message) == (Code.INTERNAL_ERROR, True), status

    story(work, tmp_path)
    assert not [record for record in caplog.records if record.exc_info], "clients are told; the log of a proxy is not"


def test_a_proxy_that_is_started_before_everything_else_says_so_and_serves_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_module, "FIRST_LOOK_SECONDS", 0.3)
    port = free_port()
    name_server = f"127.0.0.1:{port}"

    async def play() -> None:
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            config = ProxyConfig(name_servers=(name_server,), bind="127.0.0.1", grpc_port=0)
            proxy = Proxy(config, Outside())
            address = await proxy.start()
            stack.push_async_callback(proxy.close)
            client = GrpcClient(await stack.enter_async_context(grpc.aio.insecure_channel(address)))
            assert not proxy.healthy
            status = (await route(client)).status
            assert status.code != Code.OK and name_server in status.message, status
            servers = NameServer(
                NameServerConfig(listen_host="127.0.0.1", listen_port=port), TcpNetwork(), SystemClock(), OsDisk()
            )
            await servers.start()
            stack.push_async_callback(servers.close)
            running = await stack.enter_async_context(cluster(tmp_path, namesrv_addr=name_server))
            await running.create_topic("orders")

            async def served() -> bool:
                return (await route(client)).status.code == Code.OK

            await until(served)
            assert (await client.send(message("orders", b"one"))).status.code == Code.OK
            assert proxy.healthy

    asyncio.run(play())
