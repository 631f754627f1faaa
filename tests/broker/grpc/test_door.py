"""The gRPC door of a real broker, over real sockets. Official clients are in ``tests/interop``."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from gantrymq.access.values import User
from gantrymq.broker.pop.holds import Hold
from gantrymq.broker.pop.values import PopDelivery, Renewed
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.errors import Unreachable
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import (
    ClientType,
    Code,
    Endpoints,
    Message,
    MessageType,
    Permission,
    Status,
    TransactionResolution,
)
from gantrymq.grpc.pool import SERVICE
from gantrymq.message import flags, properties
from gantrymq.message.receipt_handle import parse
from gantrymq.protocol.bodies.heartbeat import ConsumerIdList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.protocol.headers.consumer import ConsumerListByGroup
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.store.queues.consume_queue import Entry
from tests.support.brokers import Cluster, cluster, until
from tests.support.grpc_client import GrpcClient, consumer, message, producer, resource
from tests.support.safety import EVERYTHING, LateReplica

COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK
UNKNOWN = TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01orders\x02UNIQ_KEY\x01half-1\x02"


@asynccontextmanager
async def served(root: Path, **settings: object) -> AsyncIterator[tuple[Cluster, GrpcClient]]:
    port = settings.pop("grpc_port", None) or free_port()
    async with (
        asyncio.timeout(40),
        cluster(root, grpc_port=port, **settings) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        await running.create_topic("orders")
        yield running, GrpcClient(channel)


def story(work: Callable[[Cluster, GrpcClient], Awaitable[None]], root: Path, **settings: object) -> None:
    async def play() -> None:
        async with served(root, **settings) as (running, client):
            await work(running, client)

    asyncio.run(play())


async def half(client: GrpcClient, topic: str = "orders") -> str:
    answer = await client.send(message(topic, b"paid", message_type=MessageType.TRANSACTION))
    assert answer.status.code == Code.OK
    assert answer.entries[0].transaction_id == answer.entries[0].message_id
    return str(answer.entries[0].transaction_id)


async def members_of(running: Cluster, group: str) -> list[str]:
    answer = await running.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerListByGroup(consumer_group=group))
    return ConsumerIdList.decode(answer.body).consumer_id_list if answer.code == ResponseCode.SUCCESS else []


def test_a_message_goes_in_and_comes_out_through_the_door_and_through_remoting(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        assert (await client.send(message("orders", b"by grpc", tag="a"))).status.code == Code.OK
        await running.sent("orders", b"by remoting")
        status, got = await client.receive("orders")
        assert status.code == Code.OK
        assert {one.body for one in got} == {b"by grpc", b"by remoting"}
        answer = await client.ack("orders", *got)
        assert [entry.status.code for entry in answer.entries] == [Code.OK, Code.OK]
        status, got = await client.receive("orders")
        assert (status.code, got) == (Code.MESSAGE_NOT_FOUND, [])

    story(work, tmp_path)


def test_each_message_of_a_request_has_a_result_of_its_own(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        answer = await client.send(message("orders", b"1"), message("orders", b""), message("orders", b"3"))
        assert answer.status.code == Code.MULTIPLE_RESULTS
        assert [entry.status.code for entry in answer.entries] == [Code.OK, Code.MESSAGE_BODY_EMPTY, Code.OK]
        assert (await client.send()).status.code == Code.MESSAGE_CORRUPTED
        assert (await client.send(message("orders"), message("other"))).status.code == Code.MESSAGE_CORRUPTED
        assert (await client.send(message("unknown"))).status.code == Code.TOPIC_NOT_FOUND

    story(work, tmp_path)


def test_a_transaction_is_ended_by_its_ids_also_again_and_after_a_restart(tmp_path: Path) -> None:
    async def before(running: Cluster, client: GrpcClient) -> None:
        committed, rolled_back, open_one = await half(client), await half(client), await half(client)
        assert (await client.end("orders", committed, committed, COMMIT)).code == Code.OK
        assert (await client.end("orders", committed, committed, COMMIT)).code == Code.OK
        assert (await client.end("orders", committed, committed, ROLLBACK)).code == Code.INVALID_TRANSACTION_ID
        assert (await client.end("orders", rolled_back, rolled_back, ROLLBACK)).code == Code.OK
        assert (
            await client.end("orders", open_one, open_one, TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED)
        ).code == Code.OK
        assert (await client.end("orders", "x", "unknown", COMMIT)).code == Code.INVALID_TRANSACTION_ID
        assert (await client.end("orders", "x", " ", COMMIT)).code == Code.INVALID_TRANSACTION_ID
        left.append(open_one)

    async def after(running: Cluster, client: GrpcClient) -> None:
        assert (await client.end("orders", left[0], left[0], COMMIT)).code == Code.OK
        _, got = await client.receive("orders")
        assert len(got) == 2

    left: list[str] = []
    story(before, tmp_path)
    story(after, tmp_path)


def test_an_answer_to_a_check_of_somebody_who_was_not_asked_is_refused_and_no_defect(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        transaction = await half(client)
        stranger = GrpcClient(client.channel, "stranger")
        answer = await stranger.end("orders", transaction, transaction, ROLLBACK, source=2)
        assert answer.code == Code.INVALID_TRANSACTION_ID, answer
        assert (await client.end("orders", transaction, transaction, COMMIT)).code == Code.OK

    story(work, tmp_path)


def test_a_half_message_is_ended_through_another_door(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        answer = await running.sent("orders", b"by remoting", HALF, sys_flag=flags.PREPARED, producer_group="orders")
        assert (await client.end("orders", "half-1", "half-1", COMMIT)).code == Code.OK
        header = EndTransaction(
            producer_group="orders", tran_state_table_offset=answer.queue_offset,
            commit_log_offset=parse_offset_message_id(answer.msg_id)[1], commit_or_rollback=12, msg_id="half-1",
            transaction_id="half-1",
        )  # fmt: skip
        contradicted = await running.ask(RequestCode.END_TRANSACTION, header)
        assert contradicted.code != ResponseCode.SUCCESS
        _, got = await client.receive("orders")
        assert [one.body for one in got] == [b"by remoting"]

    story(work, tmp_path)


def test_a_producer_is_asked_about_a_half_message_whoever_sent_it(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await running.sent("orders", b"by remoting", HALF, sys_flag=flags.PREPARED, producer_group="orders")
        async with client.telemetry(producer("orders")):
            command = await client.commands.get()
            asked = command.recover_orphaned_transaction_command
            assert (asked.transaction_id, asked.message.body) == ("half-1", b"by remoting")
            assert asked.message.topic.name == "orders"
            assert asked.message.system_properties.message_type == MessageType.TRANSACTION
            assert asked.message.system_properties.body_digest.checksum
            status = await client.end("orders", asked.message.system_properties.message_id, "half-1", COMMIT, source=2)
            assert status.code == Code.OK
        _, got = await client.receive("orders")
        assert [one.body for one in got] == [b"by remoting"]

    story(work, tmp_path, transaction_time_out=200, transaction_check_interval=200)


def test_a_producer_that_left_without_a_word_is_not_asked(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        for number in range(3):
            async with GrpcClient(client.channel, f"dead-{number}").telemetry(producer("orders")):
                pass
        transaction = await half(client)
        async with client.telemetry(producer("orders")):
            command = await client.commands.get()
            assert command.recover_orphaned_transaction_command.transaction_id == transaction

    story(work, tmp_path, transaction_time_out=100, transaction_check_interval=60_000)


def test_settings_are_answered_each_time_with_what_clients_need(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        async with client.telemetry(producer("orders")) as answer:
            assert answer.status.code == Code.OK
            assert answer.settings.publishing.max_body_size == 4 << 20
            assert answer.settings.backoff_policy.HasField("exponential_backoff")
            assert answer.settings.HasField("metric")
        other = GrpcClient(client.channel, "client-2")
        async with other.telemetry(consumer("group", "orders")) as answer:
            assert answer.settings.subscription.receive_batch_size == 32
            assert answer.settings.subscription.long_polling_timeout.seconds > 0
            assert answer.settings.backoff_policy.max_attempts == 17
            assert answer.settings.client_type == ClientType.SIMPLE_CONSUMER
            assert await members_of(running, "group") == ["client-2"]
        async with GrpcClient(client.channel, "client-3").telemetry(producer("a/b")) as answer:
            assert answer.status.code == Code.ILLEGAL_TOPIC

    story(work, tmp_path)


def test_a_client_that_says_goodbye_is_no_member_any_more(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        async with client.telemetry(consumer("group", "orders")):
            await client.call(
                "NotifyClientTermination", service.NotifyClientTerminationRequest(group=resource("group")),
                service.NotifyClientTerminationResponse,
            )  # fmt: skip
            assert await members_of(running, "group") == []

    story(work, tmp_path)


def test_routes_name_the_address_that_the_client_uses(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        at = Endpoints(scheme=3)
        at.addresses.add(host="broker.example", port=80)
        request = service.QueryRouteRequest(topic=resource("orders"), endpoints=at)
        route = await client.call("QueryRoute", request, service.QueryRouteResponse)
        assert [queue.id for queue in route.message_queues] == [0, 1, 2, 3]
        assert {queue.permission for queue in route.message_queues} == {Permission.READ_WRITE}
        assert route.message_queues[0].broker.endpoints == at
        assert MessageType.TRANSACTION in route.message_queues[0].accept_message_types
        request.topic.name = "unknown"
        route = await client.call("QueryRoute", request, service.QueryRouteResponse)
        assert route.status.code == Code.TOPIC_NOT_FOUND

    story(work, tmp_path)


def test_a_waiting_consumer_gets_a_message_at_once_and_one_that_left_loses_none(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        leaving = asyncio.create_task(client.receive("orders", seconds=20))
        await until(
            lambda: running.broker.operations.consuming.popping.requests.waiting.count("orders", "group", -1) > 0
        )
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        staying = asyncio.create_task(client.receive("orders", seconds=20))
        await asyncio.sleep(0.1)
        await client.send(message("orders", b"new"))
        _, got = await staying
        assert [one.body for one in got] == [b"new"]

    story(work, tmp_path)


def test_a_message_that_is_not_acknowledged_comes_again_and_its_old_handle_is_refused(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await client.send(message("orders", b"1"))
        _, first = await client.receive("orders", invisible=0.2)
        await asyncio.sleep(0.3)
        answer = await client.ack("orders", *first)
        assert answer.status.code == Code.INVALID_RECEIPT_HANDLE
        _, again = await client.receive("orders", seconds=10)
        assert [one.system_properties.delivery_attempt for one in again] == [2]
        assert again[0].system_properties.message_id == first[0].system_properties.message_id
        assert (await client.ack("orders", *again)).status.code == Code.OK

    story(work, tmp_path)


def test_only_the_tag_that_is_asked_for_is_given(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        # The hashes of "Aa" and "BB" are the same.
        await client.send(message("orders", b"1", tag="Aa"), message("orders", b"2", tag="BB"))
        _, got = await client.receive("orders", expression="BB")
        assert [one.body for one in got] == [b"2"]

    story(work, tmp_path)


def test_a_selector_is_unsupported_where_selectors_are_switched_off(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        status, _ = await client.receive("orders", expression="a > 1", sql=True)
        assert status.code == Code.UNSUPPORTED
        assert "enablePropertyFilter" in status.message
        status, _ = await client.receive("orders", expression="a >", sql=True)
        assert status.code == Code.ILLEGAL_FILTER_EXPRESSION

    story(work, tmp_path)


def test_a_change_of_the_invisible_time_gives_a_handle_that_counts(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await client.send(message("orders", b"1"))
        _, got = await client.receive("orders", invisible=30)
        request = service.ChangeInvisibleDurationRequest(
            group=resource("group"), topic=resource("orders"),
            receipt_handle=got[0].system_properties.receipt_handle,
            message_id=got[0].system_properties.message_id,
        )  # fmt: skip
        request.invisible_duration.seconds = 60
        answer = await client.call("ChangeInvisibleDuration", request, service.ChangeInvisibleDurationResponse)
        assert answer.status.code == Code.OK
        got[0].system_properties.receipt_handle = answer.receipt_handle
        assert (await client.ack("orders", *got)).status.code == Code.OK

    story(work, tmp_path)


def test_a_trace_goes_on_through_both_doors(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await running.sent("orders", b"remoting", f"traceparent\x01{TRACE}\x02tracestate\x01a=1\x02")
        await client.send(message("orders", b"grpc", trace_context=TRACE))
        _, got = await client.receive("orders")
        for one in got:
            assert one.system_properties.trace_context == TRACE
        by_body = {one.body: dict(one.user_properties) for one in got}
        assert by_body == {b"remoting": {"traceparent": TRACE, "tracestate": "a=1"}, b"grpc": {}}
        stored = [running.broker.store.read(entry.log_offset) for entry in entries(running, "orders")]
        texts = {one.body: properties.decode(one.properties_text) for one in stored if one is not None}
        assert texts[b"grpc"]["TRACE_CONTEXT"] == TRACE, "where consumers of remoting find it"

    story(work, tmp_path)


def entries(running: Cluster, topic: str) -> list[Entry]:
    store = running.broker.store
    found = [store.entry(topic, queue, offset) for queue in range(4) for offset in range(9)]
    return [entry for entry in found if entry is not None]


@pytest.mark.parametrize("orderly", [False, True])
def test_a_renewed_message_is_acknowledged_with_its_first_handle_after_a_restart(tmp_path: Path, orderly: bool) -> None:
    """The door renews for the first time after 40 s; here that is asked of the broker, as the door does it."""

    async def before(running: Cluster, client: GrpcClient) -> None:
        running.broker.groups.update(Group(group_name="group", consume_message_orderly=orderly))
        await client.send(message("orders", b"1", message_group="g"))
        for queue in range(4) if orderly else (-1,):
            _, got = await client.receive("orders", queue=queue, seconds=0, renew=True)
            received.extend(got)
        handle = parse(received[0].system_properties.receipt_handle)
        delivery = PopDelivery("group", "orders", handle.queue_id, handle.offset, str(handle))
        outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        at_once = running.broker.popping.acks.change_invisible_time(
            delivery, 100, suspend=False, done=outcome.set_result, hold=Hold("client-1\n", handle.pop_time)
        )
        assert isinstance(at_once or await outcome, Renewed)

    async def after(running: Cluster, client: GrpcClient) -> None:
        assert (await client.ack("orders", received[0])).status.code == Code.OK
        for queue in range(4) if orderly else (-1,):
            status, _ = await client.receive("orders", queue=queue, seconds=0.5 if not orderly else 0)
            assert status.code == Code.MESSAGE_NOT_FOUND
        assert running.broker.popping.consumption.held() == []

    received: list[Message] = []
    story(before, tmp_path)
    story(after, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("orderly", [False, True])
def test_a_message_that_is_in_hand_for_a_moment_is_held_behind_a_restart(tmp_path: Path, orderly: bool) -> None:
    """The door notes it by itself, long before its first handle is over."""

    async def before(running: Cluster, client: GrpcClient) -> None:
        running.broker.groups.update(Group(group_name="group", consume_message_orderly=orderly))
        await client.send(message("orders", b"1", message_group="g"))
        for queue in range(4) if orderly else (-1,):
            _, got = await client.receive("orders", queue=queue, seconds=0, renew=True)
            received.extend(got)
        assert running.broker.popping.consumption.held() == []
        await until(lambda: len(running.broker.popping.consumption.held()) == 1)

    async def after(running: Cluster, client: GrpcClient) -> None:
        (held,) = running.broker.popping.consumption.held()
        assert held.first.pop_time == parse(received[0].system_properties.receipt_handle).pop_time
        assert (await client.ack("orders", received[0])).status.code == Code.OK
        assert running.broker.popping.consumption.held() == []

    received: list[Message] = []
    story(before, tmp_path)
    story(after, tmp_path)


async def forward(client: GrpcClient, received: Message) -> Status:
    request = service.ForwardMessageToDeadLetterQueueRequest(
        group=resource("group"), topic=resource("orders"), receipt_handle=received.system_properties.receipt_handle,
        message_id=received.system_properties.message_id, delivery_attempt=17, max_delivery_attempts=17,
    )  # fmt: skip
    answer = await client.call(
        "ForwardMessageToDeadLetterQueue", request, service.ForwardMessageToDeadLetterQueueResponse
    )
    return answer.status


@pytest.mark.parametrize("orderly", [False, True])
def test_a_forwarded_message_is_one_dead_letter_however_often_a_client_asks(tmp_path: Path, orderly: bool) -> None:
    """Its answer may be lost, or the broker is killed before it gives one."""

    async def before(running: Cluster, client: GrpcClient) -> None:
        running.broker.groups.update(Group(group_name="group", consume_message_orderly=orderly))
        await client.send(message("orders", b"1", message_group="g"))
        for queue in range(4) if orderly else (-1,):
            _, got = await client.receive("orders", queue=queue, seconds=0)
            received.extend(got)
        statuses = await asyncio.gather(*(forward(client, received[0]) for _ in range(3)))
        assert [status.code for status in statuses] == [Code.OK] * 3
        assert running.broker.store.queue_range("%DLQ%group", 0) == (0, 1)

    async def after(running: Cluster, client: GrpcClient) -> None:
        assert (await forward(client, received[0])).code == Code.OK
        assert running.broker.store.queue_range("%DLQ%group", 0) == (0, 1)
        for queue in range(4) if orderly else (-1,):
            status, _ = await client.receive("orders", queue=queue, seconds=0)
            assert status.code == Code.MESSAGE_NOT_FOUND

    received: list[Message] = []
    story(before, tmp_path)
    story(after, tmp_path)


def test_a_client_must_say_its_id(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        method = client.channel.unary_unary(
            f"/{SERVICE}/Heartbeat", service.HeartbeatRequest.SerializeToString, service.HeartbeatResponse.FromString
        )
        answer = await method(service.HeartbeatRequest(), timeout=5)
        assert answer.status.code == Code.CLIENT_ID_REQUIRED

    story(work, tmp_path)


def test_a_client_that_sends_too_many_requests_is_told_so(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        answers = [(await client.send(message("orders"))).status for _ in range(200)]
        assert {answer.code for answer in answers} == {Code.OK, Code.TOO_MANY_REQUESTS}
        assert "maxRequestsPerSecond" in next(one.message for one in answers if one.code != Code.OK)
        assert running.broker.client_limits.refused(Reason.REQUESTS) >= 1

    story(work, tmp_path, max_requests_per_second=5)


def test_who_takes_the_id_of_another_client_does_not_get_what_is_meant_for_it(tmp_path: Path) -> None:
    first = '{"username":"admin","password":"admin-secret"}'

    async def work(running: Cluster, client: GrpcClient) -> None:
        guard = running.broker.guard
        assert guard is not None
        guard.directory.create(User("thief", "thief-secret"), None)
        running.broker.topics.update(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        owner = GrpcClient(client.channel, key=("admin", "admin-secret"))
        thief = GrpcClient(client.channel, key=("thief", "thief-secret"))
        async with owner.telemetry(producer("orders")), thief.telemetry(producer()) as answer:
            assert answer.status.code == Code.OK
            transaction = await half(owner)
            command = await owner.commands.get()
            assert command.recover_orphaned_transaction_command.transaction_id == transaction
            assert thief.commands.empty()
        route = service.QueryRouteRequest(topic=resource("orders"))
        asked = [await one.call("QueryRoute", route, service.QueryRouteResponse) for one in (owner, thief)]
        assert [answer.status.code for answer in asked] == [Code.OK, Code.UNAUTHORIZED]
        nobody = GrpcClient(client.channel)
        async with nobody.telemetry(producer("orders")) as answer:
            assert answer.status.code == Code.UNAUTHORIZED

    story(
        work, tmp_path, transaction_time_out=100, transaction_check_interval=60_000, authentication_enabled=True,
        authorization_enabled=True, init_authentication_user=first, namesrv_addr="",
    )  # fmt: skip


def test_a_call_that_is_given_up_while_it_waits_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    replica = LateReplica(position=EVERYTHING)

    async def work(running: Cluster, client: GrpcClient) -> None:
        transaction = await half(client)
        replica.position = 0
        given_up = [
            asyncio.create_task(client.send(message("orders", b"given up"))),
            asyncio.create_task(client.end("orders", transaction, transaction, COMMIT)),
        ]
        await asyncio.sleep(0.3)
        for call in given_up:
            call.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        waiting = asyncio.create_task(client.send(message("orders", b"waits")))
        await asyncio.sleep(0.3)
        replica.confirm(EVERYTHING)
        assert (await waiting).status.code == Code.OK
        assert (await client.end("orders", transaction, transaction, COMMIT)).code == Code.OK

    story(work, tmp_path, conditions=(replica,))
    assert "InvalidStateError" not in caplog.text


def test_a_port_in_use_ends_the_start(tmp_path: Path) -> None:
    async def work() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            async with cluster(tmp_path, grpc_port=taken.getsockname()[1]):
                raise AssertionError("it must not start")

    with pytest.raises(Unreachable):
        asyncio.run(work())


def test_a_broker_that_changes_its_role_refuses_and_then_takes_messages_again(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        open_half = await half(client)
        await running.broker.become(Role.REPLICA)
        refused = await client.send(message("orders", b"no"))
        assert refused.status.code == Code.FORBIDDEN, refused
        assert running.broker.coordinator.table.get(0) is None
        await running.broker.become(Role.PRIMARY)
        assert (await client.send(message("orders", b"yes"))).status.code == Code.OK
        assert open_half and len(running.broker.coordinator.table) == 1

    story(work, tmp_path)


def test_priorities_go_in_and_the_highest_ones_come_out_first(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await running.create_topic("ranked", attributes="+message.type=PRIORITY")
        route = await client.call(
            "QueryRoute", service.QueryRouteRequest(topic=resource("ranked")), service.QueryRouteResponse
        )
        assert {kind for queue in route.message_queues for kind in queue.accept_message_types} == {MessageType.PRIORITY}
        sent = [(b"low", 0), (b"high", 3), (b"higher than there are queues", 99), (b"middle", 1)]
        ranked = [message("ranked", body, message_type=MessageType.PRIORITY, priority=rank) for body, rank in sent]
        assert (await client.send(*ranked)).status.code == Code.OK
        await running.sent("ranked", b"by remoting", f"{properties.PRIORITY}\x012\x02")
        got = [(await client.receive("ranked", count=1))[1][0] for _ in range(5)]
        assert [one.body for one in got[2:]] == [b"by remoting", b"middle", b"low"]
        assert {one.body for one in got[:2]} == {b"high", b"higher than there are queues"}
        assert sorted(one.system_properties.priority for one in got) == [0, 1, 2, 3, 99]
        assert {one.system_properties.message_type for one in got} == {MessageType.PRIORITY}
        assert [dict(one.user_properties) for one in got] == [{}] * 5

    story(work, tmp_path)


def test_a_simple_consumer_in_order_gets_all_queues_whatever_queue_it_names(tmp_path: Path) -> None:
    """The one for Node.js (1.0.8) names queue 0 each time."""

    async def work(running: Cluster, client: GrpcClient) -> None:
        await running.create_topic("ordered", attributes="+message.type=FIFO")
        running.broker.groups.update(Group(group_name="group", consume_message_orderly=True))
        groups = [f"group {number}" for number in range(8)]
        for group in groups:
            one = message("ordered", group.encode(), message_type=MessageType.FIFO, message_group=group)
            assert (await client.send(one)).status.code == Code.OK
        found: list[bytes] = []
        while (got := (await client.receive("ordered", queue=0))[1]) and len(found) < len(groups):
            found += [one.body for one in got]
            await client.ack("ordered", *got)
        assert sorted(found) == [group.encode() for group in groups]

    story(work, tmp_path)


def test_a_topic_of_ordered_messages_refuses_plain_ones_of_grpc_and_takes_those_of_remoting(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await running.create_topic("ordered", attributes="+message.type=FIFO")
        refused = (await client.send(message("ordered"))).status
        assert refused.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert refused.message == "the topic ordered takes messages of type FIFO, not of type NORMAL"
        await running.sent("ordered", b"by remoting", "")
        ordered = message("ordered", message_type=MessageType.FIFO, message_group="g")
        assert (await client.send(ordered)).status.code == Code.OK

    story(work, tmp_path)


def test_a_topic_of_another_type_refuses_priorities(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await running.create_topic("plain", attributes="+message.type=NORMAL")
        await running.create_topic("ranked", attributes="+message.type=PRIORITY")
        refused = [
            message("plain", message_type=MessageType.PRIORITY, priority=1),
            message("ranked", message_type=MessageType.FIFO, message_group="g"),
        ]
        for one in refused:
            assert (await client.send(one)).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE

    story(work, tmp_path)
