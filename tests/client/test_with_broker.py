"""The client with a real GantryMQ broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gantrymq.aio import (
    Admin,
    ConsumeFromWhere,
    ConsumeStatus,
    LocalTransactionState,
    Message,
    MessageView,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    SendStatus,
    TransactionProducer,
)
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, RequestRejected, RouteNotFound, TransactionConflict
from tests.client.peer import run, until
from tests.client.real import broker, name_server, server

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
FAST_CHECKS = {"transaction_time_out": 200, "transaction_check_interval": 300}


class Books:
    """A listener whose answers are looked up by body."""

    def __init__(self, execute: dict[bytes, LocalTransactionState], check: dict[bytes, LocalTransactionState]) -> None:
        self.execute = execute
        self.check = check
        self.checked: list[MessageView] = []

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return self.execute[message.body]

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.checked.append(message)
        return self.check.get(message.body, UNKNOWN)


async def everything(address: str, topic: str) -> list[MessageView]:
    found: list[MessageView] = []
    async with PullConsumer(name_servers=address) as consumer:
        for queue in await consumer.queues(topic):
            offset = 0
            while offset < await consumer.max_offset(queue):
                result = await consumer.pull(queue, offset, 1000)
                found.extend(result.messages)
                offset = result.next_offset
    return found


def test_what_is_sent_is_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("pg", name_servers=address) as producer:
            message = Message("T", "grüße".encode(), tags="A", keys=["k1"], properties={"user": "ü"}, flag=-5)
            result = await producer.send(message)
            assert result.status is SendStatus.SEND_OK and result.transaction_id == result.message_id
            await producer.send_batch([Message("T", b"b%d" % number) for number in range(5)])
            await producer.send(Message("T", b"z" * 20_000))
            found = {view.body: view for view in await everything(address, "T")}
            assert set(found) == {"grüße".encode(), b"z" * 20_000, *[b"b%d" % number for number in range(5)]}
            view = found["grüße".encode()]
            assert (view.flag, view.tags, view.keys, view.properties["user"]) == (-5, "A", ["k1"], "ü")
            assert view.message_id == result.message_id and view.offset_message_id == result.offset_message_id
            assert found[b"z" * 20_000].compressed_when_stored

    run(test)


def test_pull_waits_for_news_and_filters_tags(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            server(tmp_path) as address,
            Producer("pg", name_servers=address) as producer,
            PullConsumer("cg", name_servers=address) as consumer,
        ):
            queue = (await producer.send(Message("T", b"0", tags="A"))).queue
            waiting = asyncio.create_task(consumer.pull(queue, 1, tags="B", wait_ms=10_000))
            await producer.send(Message("T", b"1", tags="A"), queue)
            await producer.send(Message("T", b"2", tags="B"), queue)
            result = await waiting
            while not result.messages:
                result = await consumer.pull(queue, result.next_offset, tags="B", wait_ms=10_000)
            assert [view.body for view in result.messages] == [b"2"]
            assert (await consumer.pull(queue, 99)).status is PullStatus.OFFSET_ILLEGAL
            assert await consumer.committed(queue) is None
            await consumer.commit(queue, 2)
            assert await consumer.committed(queue) == 2
            assert await consumer.offset_by_time(queue, 0) == 0

    run(test)


def test_large_pulls(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            server(tmp_path) as address,
            Producer("pg", name_servers=address) as producer,
            PullConsumer(name_servers=address) as consumer,
        ):
            queue = (await producer.send(Message("T", b"x" * 500))).queue
            for _ in range(20):
                await producer.send_batch([Message("T", b"x" * 500)] * 100, queue)
            raw = await consumer.pull_raw(queue, 0, 32768, 4 * 1024 * 1024)
            assert (raw.next_offset, raw.max_offset) == (2001, 2001) and len(raw.data) > 1_000_000

    run(test)


def test_only_committed_messages_are_seen(tmp_path: Path) -> None:
    async def test() -> None:
        books = Books({b"commit": COMMIT, b"rollback": ROLLBACK, b"unknown": UNKNOWN}, {})
        async with (
            server(tmp_path) as address,
            TransactionProducer("tpg", name_servers=address, listener=books) as producer,
        ):
            results = {
                body: await producer.send_in_transaction(Message("T", body, tags="t"), arg=1) for body in books.execute
            }
            assert [result.decided for result in results.values()] == [True, True, False]
            (view,) = await everything(address, "T")
            assert view.body == b"commit" and view.message_id == results[b"commit"].message_id

    run(test)


def test_check_back_decides_what_was_left_open(tmp_path: Path) -> None:
    async def test() -> None:
        bodies = {b"yes": UNKNOWN, b"no": UNKNOWN}
        books = Books(bodies, {b"yes": COMMIT, b"no": ROLLBACK})
        async with (
            server(tmp_path, **FAST_CHECKS) as address,
            TransactionProducer("tpg", name_servers=address, listener=books) as producer,
        ):
            for body in bodies:
                assert not (await producer.send_in_transaction(Message("T", body))).decided
            await until(lambda: {view.body for view in books.checked} == set(bodies))
            while not (found := await everything(address, "T")):
                await asyncio.sleep(0.01)
            assert [view.body for view in found] == [b"yes"]

    run(test)


def test_a_successor_that_sends_nothing_answers_for_its_predecessor(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path, **FAST_CHECKS) as address:
            gone = Books({b"x": UNKNOWN}, {})
            async with TransactionProducer("tpg", name_servers=address, listener=gone) as producer:
                await producer.send_in_transaction(Message("T", b"x"))
            heir = Books({}, {b"x": COMMIT})
            async with TransactionProducer("tpg", name_servers=address, listener=heir, topics=["T"]):
                while not await everything(address, "T"):
                    await asyncio.sleep(0.01)
                assert heir.checked[0].transaction_id

    run(test)


def test_a_successor_that_names_no_topics_answers_for_its_predecessor(tmp_path: Path) -> None:
    """Without a send and without ``topics`` it knows the brokers from the name servers."""

    async def test() -> None:
        async with server(tmp_path, auto_create_topic_enable=False, **FAST_CHECKS) as address:
            async with Admin(address) as admin:
                await admin.create_topic("T", 1)
            gone = Books({b"x": UNKNOWN}, {})
            async with TransactionProducer("tpg", name_servers=address, listener=gone) as producer:
                await producer.send_in_transaction(Message("T", b"x"))
            heir = Books({}, {b"x": COMMIT})
            async with TransactionProducer("tpg", name_servers=address, listener=heir):
                while not await everything(address, "T"):
                    await asyncio.sleep(0.01)
                assert heir.checked[0].transaction_id

    run(test)


@pytest.mark.slow
def test_the_first_decision_wins(tmp_path: Path) -> None:
    async def test() -> None:
        books = Books({b"x": COMMIT}, {})
        async with (
            server(tmp_path) as address,
            TransactionProducer("tpg", name_servers=address, listener=books) as producer,
        ):
            from gantrymq.client.listener import ListenerAnswer

            half = await producer.begin(Message("T", b"x"))
            assert (await producer.finish(half, ListenerAnswer(ROLLBACK))).decided
            producer._delivery.in_flight += 1
            with pytest.raises(TransactionConflict) as caught:
                await producer.finish(half, ListenerAnswer(COMMIT))
            assert caught.value.code == 604
            assert not await everything(address, "T")

    run(test)


def test_decisions_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
    async def test() -> None:
        books = Books({b"x": UNKNOWN}, {b"x": COMMIT})
        async with (
            name_server() as address,
            TransactionProducer("tpg", name_servers=address, listener=books) as producer,
        ):
            port = free_port()
            async with broker(tmp_path, address, listen_port=port, transaction_time_out=60_000):
                await producer.send_in_transaction(Message("T", b"x"))
            async with broker(tmp_path, address, listen_port=port, **FAST_CHECKS):
                # The producer finds the restarted broker by itself; it has nothing to send.
                await until(lambda: books.checked)
                while not await everything(address, "T"):
                    await asyncio.sleep(0.01)

    run(test)


@pytest.mark.slow
def test_push_delivers_retries_and_buries(tmp_path: Path) -> None:
    async def test() -> None:
        observed: list[tuple[bytes, int]] = []

        def listener(messages: list[MessageView]) -> ConsumeStatus:
            observed.extend((message.body, message.reconsume_times) for message in messages)
            return ConsumeStatus.RECONSUME_LATER if b"bad" in messages[0].body else ConsumeStatus.CONSUME_SUCCESS

        async with server(tmp_path, message_delay_level="1s 1s 1s 1s 1s") as address:
            consumer = PushConsumer("cg", name_servers=address, listener=listener, max_reconsume_times=1)
            async with consumer.subscribe("T"), Producer("pg", name_servers=address) as producer:
                for number in range(20):
                    await producer.send(Message("T", b"good%d" % number))
                await producer.send(Message("T", b"bad"))
                await until(lambda: (b"bad", 1) in observed, 20)
                while True:
                    try:
                        dead = await everything(address, "%DLQ%cg")
                    except RouteNotFound:
                        dead = []
                    if dead:
                        break
                    await asyncio.sleep(0.02)
            assert [view.body for view in dead] == [b"bad"]
            assert sorted(observed) == sorted([*[(b"good%d" % n, 0) for n in range(20)], (b"bad", 0), (b"bad", 1)])

    run(test, 60)


def test_members_of_a_group_share_and_lose_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        shares: list[list[bytes]] = [[], []]

        def member(number: int, address: str) -> PushConsumer:
            def listener(messages: list[MessageView]) -> None:
                shares[number].extend(message.body for message in messages)

            return PushConsumer("cg", name_servers=address, listener=listener).subscribe("T")

        async with server(tmp_path) as address, Admin(address) as admin:
            await admin.create_topic("T", queues=8)
            async with member(0, address) as first, member(1, address) as second:
                await until(lambda: all(len([q for q in m.assigned if q.topic == "T"]) == 4 for m in (first, second)))
                async with Producer("pg", name_servers=address) as producer:
                    for number in range(80):
                        await producer.send(Message("T", b"%d" % number))
                await until(lambda: len(shares[0]) + len(shares[1]) >= 80)
                assert [len(share) for share in shares] == [40, 40]

    run(test)


def test_a_group_begins_where_it_was_told_to(tmp_path: Path) -> None:
    async def test() -> None:
        observed: list[bytes] = []

        def listener(messages: list[MessageView]) -> None:
            observed.extend(message.body for message in messages)

        async with server(tmp_path) as address, Producer("pg", name_servers=address) as producer:
            for number in range(10):
                await producer.send(Message("T", b"%d" % number))
            consumer = PushConsumer(
                "first", name_servers=address, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET
            )
            async with consumer.subscribe("T"):
                await until(lambda: len(observed) >= 10)
            assert sorted(observed) == [b"%d" % number for number in range(10)]

    run(test)


def test_topics_are_made_listed_and_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Admin(address) as admin:
            await admin.create_topic("orders", queues=3, message_type="TRANSACTION")
            assert "orders" in await admin.topics()
            (data,) = (await admin.route("orders")).queue_datas
            assert data.write_queue_nums == 3
            assert [stats.messages for stats in await admin.queue_stats("orders")] == [0, 0, 0]
            books = Books({b"x": COMMIT}, {})
            async with TransactionProducer("tpg", name_servers=address, listener=books) as producer:
                await producer.send_in_transaction(Message("orders", b"x"))
            assert sum(stats.messages for stats in await admin.queue_stats("orders")) == 1
            await admin.delete_topic("orders")
            with pytest.raises(RouteNotFound):
                await admin.route("orders")
            with pytest.raises(ConfigError, match="TRANSACTION"):
                await admin.create_topic("x", message_type="SQL")
            with pytest.raises(ConfigError, match="DefaultCluster"):
                await admin.create_topic("x", cluster="other")

    run(test)


def test_a_half_to_a_topic_of_another_type_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        books = Books({b"x": COMMIT}, {})
        async with (
            server(tmp_path) as address,
            Admin(address) as admin,
            TransactionProducer("tpg", name_servers=address, listener=books) as producer,
        ):
            await admin.create_topic("plain", message_type="NORMAL")
            with pytest.raises(RequestRejected):
                await producer.send_in_transaction(Message("plain", b"x"))

    run(test)


def test_two_brokers_share_the_work_and_one_is_enough(tmp_path: Path) -> None:
    async def test() -> None:
        observed: list[bytes] = []
        books = Books({b"x": COMMIT}, {})
        async with (
            name_server() as address,
            broker(tmp_path / "a", address, broker_name="broker-a"),
            Admin(address) as admin,
            TransactionProducer("tpg", name_servers=address, listener=books, avoid_slow_brokers=False) as producer,
            PushConsumer(  # which may learn of one broker's queues before it learns of the other's
                "cg", name_servers=address, listener=lambda found: observed.extend(view.body for view in found),
                rebalance_interval_ms=200, route_refresh_ms=200,
            ).subscribe("T"),
        ):  # fmt: skip
            async with broker(tmp_path / "b", address, broker_name="broker-b"):
                await admin.create_topic("T", queues=2)
                places = {(await producer.send(Message("T", b"1"))).queue for _ in range(4)}
                assert {place.broker_name for place in places} == {"broker-a", "broker-b"} and len(places) == 4
                results = [await producer.send_in_transaction(Message("T", b"x")) for _ in range(4)]
                assert all(result.decided for result in results)
                assert len({result.queue.broker_name for result in results}) == 2
                await until(lambda: len(observed) == 8)
            survivors = [await producer.send(Message("T", b"2")) for _ in range(8)]
            assert {result.queue.broker_name for result in survivors} == {"broker-a"}
            await until(lambda: len(observed) == 16)

    run(test)
