"""Sending over real sockets, against a scripted cluster."""

from __future__ import annotations

import asyncio
import zlib

import pytest

from gantrymq.aio import Message, MessageQueue, Producer, SendStatus
from gantrymq.errors import (
    Closed,
    ConfigError,
    MessageIllegal,
    RequestRejected,
    RouteNotFound,
    TimedOut,
    Unreachable,
)
from gantrymq.message import properties
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_response
from gantrymq.protocol.headers.send import SendMessage
from tests.client.peer import ScriptedBroker, cluster, run, until

SEND = RequestCode.SEND_MESSAGE_V2


def test_send_says_where_the_message_is() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            message = Message("T", b"hello", tags="A", keys=["k1", "k2"], properties={"user": "ä"}, flag=7)
            result = await producer.send(message, MessageQueue("T", "broker-a", 2))
            assert result.status is SendStatus.SEND_OK
            assert result.queue == MessageQueue("T", "broker-a", 2)
            assert result.queue_offset == 0
            assert result.message_id == result.transaction_id and message.unique_key is None
            assert len(result.message_id) == 32
            header = next(c for c in peers.broker.requests if c.code == SEND).header(SendMessage)
            assert (header.producer_group, header.flag, header.bname, header.default_topic) == (
                "pg",
                7,
                "broker-a",
                "TBW102",
            )
            sent = properties.decode(header.properties or "")
            assert sent == {"TAGS": "A", "KEYS": "k1 k2", "user": "ä", "UNIQ_KEY": result.message_id, "WAIT": "true"}

    run(test)


def test_queues_are_taken_in_turn() -> None:
    async def test() -> None:
        async with (
            cluster(brokers=2) as peers,
            Producer("pg", name_servers=peers.address, avoid_slow_brokers=False) as producer,
        ):
            results = [await producer.send(Message("T", b"x")) for _ in range(8)]
            assert len({result.queue for result in results}) == 8

    run(test)


def test_the_first_thing_on_a_connection_is_a_heartbeat() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            await producer.send(Message("T", b"x"))
            assert peers.broker.codes()[:2] == [RequestCode.HEART_BEAT, SEND]
            beat = peers.broker.beats[0]
            assert [group.group_name for group in beat.producer_data_set] == ["pg"]
            assert beat.client_id == producer.client_id
        assert peers.broker.codes()[-1] == RequestCode.UNREGISTER_CLIENT

    run(test)


def test_topics_given_at_the_start_get_heartbeats_before_anything_is_sent() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address, topics="T"):
            await until(lambda: peers.broker.beats)
            assert SEND not in peers.broker.codes()

    run(test)


def test_large_bodies_travel_compressed() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            await producer.send(Message("T", b"x" * 4095))
            await producer.send(Message("T", b"y" * 4096))
            small, large = [c for c in peers.broker.requests if c.code == SEND]
            assert small.header(SendMessage).sys_flag == 0 and small.body == b"x" * 4095
            assert large.header(SendMessage).sys_flag == 0x301 and zlib.decompress(large.body) == b"y" * 4096

    run(test)


def test_a_refusal_that_another_broker_may_not_share_is_retried_there() -> None:
    async def test() -> None:
        async with cluster(brokers=2) as peers, Producer("pg", name_servers=peers.address) as producer:
            await producer.send(Message("T", b"warm"))
            for code in (17, 14, 1, 2, 16, 204, 205, 1500):
                peers.brokers[0].next(SEND, lambda s, c, code=code: encode_response(c, code, remark="no"))  # type: ignore[misc]
                peers.brokers[1].next(SEND, lambda s, c, code=code: encode_response(c, code, remark="no"))  # type: ignore[misc]
                result = await producer.send(Message("T", b"x"))
                assert result.status is SendStatus.SEND_OK
                assert not peers.brokers[0].script[SEND] and not peers.brokers[1].script[SEND]

    run(test)


def test_other_refusals_are_raised_with_code_and_remark() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            peers.broker.next(SEND, lambda s, c: encode_response(c, 13, remark="too long"))
            with pytest.raises(RequestRejected, match="too long") as caught:
                await producer.send(Message("T", b"x"))
            assert (caught.value.code, caught.value.remark) == (13, "too long")

    run(test)


def test_stored_but_less_safely_is_a_result_and_not_an_error() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            for code, status in ((10, SendStatus.FLUSH_DISK_TIMEOUT), (11, SendStatus.SLAVE_NOT_AVAILABLE)):
                ordinary = peers.broker.send

                def less_safe(session: object, command: object, code: int = code, ordinary: object = ordinary) -> bytes:
                    return ordinary(session, command).replace(b'"code":0', b'"code":%02d' % code, 1)  # type: ignore[operator, no-any-return]

                def framed(session: object, command: object, answer: object = less_safe) -> bytes:
                    grown = answer(session, command)  # type: ignore[operator]
                    lengths = [int.from_bytes(grown[0:4], "big") + 1, int.from_bytes(grown[4:8], "big") + 1]
                    return b"".join(n.to_bytes(4, "big") for n in lengths) + bytes(grown[8:])

                peers.broker.next(SEND, framed)
                assert (await producer.send(Message("T", b"x"))).status is status

    run(test)


def test_a_lost_connection_is_retried_on_the_next_broker_which_is_then_preferred() -> None:
    async def test() -> None:
        async with cluster(brokers=2) as peers, Producer("pg", name_servers=peers.address) as producer:
            await producer.send(Message("T", b"warm"))
            await peers.brokers[0].server.close()
            results = [await producer.send(Message("T", b"x")) for _ in range(12)]
            assert {result.queue.broker_name for result in results[1:]} == {"broker-b"}

    run(test)


def test_silence_ends_with_a_timeout_and_the_message_may_have_been_stored() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            await producer.send(Message("T", b"connects"))
            peers.broker.next(SEND, *[lambda s, c: None] * 3)
            with pytest.raises(TimedOut, match="may or may not"):
                await producer.send(Message("T", b"x"), timeout_ms=200)

    run(test)


def test_a_message_is_never_changed_and_repeated_under_an_id_only_when_it_has_one() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            plain, mine = Message("T", b"x", keys="k"), Message("T", b"x", unique_key="order-42")
            ids = {(await producer.send(plain)).message_id for _ in range(3)}
            assert len(ids) == 3 and plain == Message("T", b"x", keys="k")
            assert [(await producer.send(mine)).message_id for _ in range(2)] == ["order-42"] * 2
            await producer.send_oneway(plain)
            await producer.send_ordered(plain, "a")
            assert (await producer.send_batch([plain, mine])).message_id.split(",")[1] == "order-42"
            with pytest.raises(TimedOut):
                await producer.request(plain, timeout_ms=50)
            assert plain == Message("T", b"x", keys="k") and mine == Message("T", b"x", unique_key="order-42")

    run(test)


def test_a_batch_lies_in_one_queue_one_behind_the_other() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            messages = [Message("T", b"%d" % n, tags="B") for n in range(3)]
            result = await producer.send_batch(messages)
            assert len(set(result.message_id.split(","))) == 3 and not any(message.unique_key for message in messages)
            assert result.offset_message_id.count(",") == 2
            stored = peers.broker.queues["T", result.queue.queue_id]
            assert len(stored) == 3
            header = next(c for c in peers.broker.requests if c.code == 320).header(SendMessage)
            own = properties.decode(header.properties or "")
            assert header.batch and set(own) == {"WAIT"}, "a key of its own would replace those of the messages (4.9.7)"

    run(test)


def test_what_cannot_be_a_batch() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            for messages, words in (
                ([], "empty"),
                ([Message("T", b"x"), Message("U", b"x")], "one topic"),
                ([Message("T", b"x", delay_level=3)], "delayed"),
                ([Message("%RETRY%g", b"x")], "retry"),
                ([Message("T", b"x" * 3_000_000), Message("T", b"x" * 3_000_000)], "Split"),
            ):
                with pytest.raises(MessageIllegal, match=words):
                    await producer.send_batch(messages)

    run(test)


def test_oneway_arrives_without_an_answer() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            await producer.send_oneway(Message("T", b"x"))
            await until(lambda: SEND in peers.broker.codes())
            assert next(c for c in peers.broker.requests if c.code == SEND).is_one_way

    run(test)


def test_illegal_messages_are_refused_before_anything_is_sent() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            for message, words in (
                (Message("T", b""), "empty"),
                (Message("T", b"x" * (4 * 1024 * 1024 + 1)), "4194304"),
                (Message("bad topic", b"x"), "characters"),
                (Message("", b"x"), "blank"),
                (Message("RMQ_SYS_TRANS_HALF_TOPIC", b"x"), "system"),
                (Message("T", b"x", properties={"a": "b\x01c"}), "0x01"),
                (Message("T", b"x", properties={"a": "b" * 40_000}), "32767"),
            ):
                with pytest.raises(MessageIllegal, match=words):
                    await producer.send(message)
            assert SEND not in peers.broker.codes()

    run(test)


def test_an_unknown_topic_is_sent_by_the_template_and_found_soon_after() -> None:
    async def test() -> None:
        async with (
            cluster(topics={"TBW102": 8}) as peers,
            Producer("pg", name_servers=peers.address) as producer,
        ):
            queues = {(await producer.send(Message("new", b"x"))).queue for _ in range(8)}
            assert queues == {MessageQueue("new", "broker-a", number) for number in range(4)}
            peers.topics["new"] = 2
            deadline = asyncio.get_running_loop().time() + 10
            while len(await producer.queues("new")) != 2:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.01)

    run(test)


def test_an_unknown_topic_without_a_template_says_what_to_do() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            with pytest.raises(RouteNotFound, match="gantry topic create"):
                await producer.send(Message("new", b"x"))

    run(test)


def test_a_name_server_that_is_not_there_is_named_with_what_to_do() -> None:
    async def test() -> None:
        async with Producer("pg", name_servers="127.0.0.1:1") as producer:
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1.*gantry server"):
                await producer.send(Message("T", b"x"))

    run(test)


def test_the_second_name_server_is_used_when_the_first_is_away() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            Producer("pg", name_servers=f"127.0.0.1:1;{peers.address}") as producer,
        ):
            assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK

    run(test)


def test_settings_are_checked_and_misspellings_are_recognised() -> None:
    with pytest.raises(ConfigError, match="did you mean 'retries'"):
        Producer("pg", name_servers="h:1", retrys=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="no name server"):
        Producer("pg", name_servers="")
    with pytest.raises(ConfigError, match="host:port"):
        Producer("pg", name_servers="localhost")
    with pytest.raises(ConfigError, match="milliseconds"):
        Producer("pg", name_servers="h:1", send_timeout_ms=-1)
    with pytest.raises(MessageIllegal, match="group"):
        Producer("bad group", name_servers="h:1")


def test_close_waits_for_sends_in_flight_and_later_calls_raise_closed() -> None:
    async def test() -> None:
        async with cluster() as peers:
            producer = Producer("pg", name_servers=peers.address)
            with pytest.raises(Closed, match="not started"):
                await producer.send(Message("T", b"x"))
            await producer.start()
            await producer.send(Message("T", b"warm"))
            held: list[object] = []

            def late(session: object, command: object) -> None:
                asyncio.get_running_loop().call_later(
                    0.1,
                    lambda: session.send(peers.broker.send(session, command)),  # type: ignore[attr-defined, arg-type]
                )
                held.append(command)

            peers.broker.next(SEND, late)
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            await until(lambda: held)
            await producer.close()
            assert (await sending).status is SendStatus.SEND_OK
            with pytest.raises(Closed, match="closed"):
                await producer.send(Message("T", b"x"))
            await producer.close()

    run(test)


def test_close_gives_up_on_sends_that_take_too_long() -> None:
    async def test() -> None:
        async with cluster() as peers:
            producer = Producer("pg", name_servers=peers.address, close_timeout_ms=50)
            await producer.start()
            peers.broker.next(SEND, lambda s, c: None)
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            await until(lambda: SEND in peers.broker.codes())
            await producer.close()
            with pytest.raises(Closed):
                await sending

    run(test)


def test_a_send_waits_for_a_broker_that_restarts() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address, send_timeout_ms=20_000) as producer:
            await producer.send(Message("T", b"warm"))
            await peers.broker.server.close()
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            refused = ScriptedBroker("broker-a")
            await asyncio.sleep(0)
            refused.address = await refused.server.start("127.0.0.1", 0)
            peers.brokers[0] = refused
            assert (await sending).status is SendStatus.SEND_OK
            await refused.server.close()

    run(test)


def test_a_send_waits_while_a_broker_has_no_master() -> None:
    """A replica is about to become primary: nothing is wrong yet."""

    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address, send_timeout_ms=20_000) as producer:
            await producer.send(Message("T", b"warm"))
            peers.broker_id = 1
            await producer._endpoint.routes.refresh(["T"])
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            count = len(peers.asked)
            await until(lambda: len(peers.asked) > count + 2)
            assert not sending.done()
            peers.broker_id = 0
            assert (await sending).status is SendStatus.SEND_OK
            peers.broker_id = 1
            await producer._endpoint.routes.refresh(["T"])
            with pytest.raises(RouteNotFound, match="no master at the moment"):
                await producer.send(Message("T", b"y"), timeout_ms=300)

    run(test)


@pytest.mark.slow
def test_a_broker_that_fails_again_is_looked_for_as_long_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gantrymq.client.sending.delivery.LOOK_S", 0.1)
    monkeypatch.setattr("gantrymq.client.sending.delivery.LOOKS", 30)

    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address, send_timeout_ms=60_000) as producer:
            queue = (await producer.send(Message("T", b"warm"))).queue
            producer._delivery.failed(queue)
            peers.broker.next(SEND, lambda session, command: None)
            sending = asyncio.create_task(producer.send(Message("T", b"x"), queue))
            await asyncio.sleep(2.5)
            producer._delivery.failed(queue)
            await asyncio.sleep(2.0)  # the time of the first failure is over
            other = ScriptedBroker("broker-a")
            other.address = await other.server.start("127.0.0.1", 0)
            before, peers.brokers[0] = peers.broker, other
            with pytest.raises(Unreachable):  # an explicit queue has one attempt
                await sending
            assert not before.script[SEND], "the silent broker was asked"
            await before.server.close()

    run(test)


def test_a_broker_that_stays_away_is_unreachable_when_time_is_over() -> None:
    async def test() -> None:
        async with cluster() as peers, Producer("pg", name_servers=peers.address) as producer:
            await producer.send(Message("T", b"warm"))
            await peers.broker.server.close()
            with pytest.raises(Unreachable, match=peers.broker.address):
                await producer.send(Message("T", b"x"), timeout_ms=300)

    run(test)


def test_a_known_route_outlives_a_name_server_that_forgot_it() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            Producer("pg", name_servers=peers.address, route_refresh_ms=20) as producer,
        ):
            await producer.send(Message("T", b"warm"))
            peers.topics.clear()
            asked = len(peers.asked)
            await until(lambda: len(peers.asked) > asked + 2)
            assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK

    run(test)


def test_topics_given_at_the_start_are_looked_up_until_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gantrymq.client.producer.LOOK_UP_INTERVAL_MS", 10)

    async def test() -> None:
        async with (
            cluster(topics={"other": 1}) as peers,
            Producer("pg", name_servers=peers.address, topics=["T"]),
        ):
            peers.topics["T"] = 1
            await until(lambda: peers.broker.beats)

    run(test)
