"""Delivery to a listener over real sockets, against a scripted cluster."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gantrymq.aio import ConsumeFromWhere, ConsumeStatus, Message, MessageQueue, MessageView, Producer, PushConsumer
from gantrymq.errors import Closed, ConfigError, MessageIllegal, Unreachable
from gantrymq.message import properties
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request, encode_response
from gantrymq.protocol.headers.consumer import ConsumerIdsChanged, SendBack
from gantrymq.protocol.headers.pull import PullMessage, PullMessageAnswer
from gantrymq.protocol.headers.send import SendMessage
from tests.client.peer import ScriptedCluster, cluster, run, until
from tests.support.cancelling import cancelled_at

BACK = RequestCode.CONSUMER_SEND_MSG_BACK


class Inbox:
    """A listener that keeps what it gets."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.views: list[MessageView] = []
        self.sizes: list[int] = []
        self.threads: set[str] = set()

    def __call__(self, messages: list[MessageView]) -> ConsumeStatus | None:
        self.views.extend(messages)
        self.sizes.append(len(messages))
        self.threads.add(threading.current_thread().name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]

    @property
    def bodies(self) -> list[bytes]:
        return sorted(view.body for view in self.views)


@contextlib.asynccontextmanager
async def consuming(
    peers: ScriptedCluster, listener: Any, tags: str = "*", **settings: Any
) -> AsyncIterator[PushConsumer]:
    consumer = PushConsumer("cg", name_servers=peers.address, listener=listener, **settings).subscribe("T", tags)
    async with consumer:
        yield consumer


async def fill(peers: ScriptedCluster, count: int, queue: MessageQueue | None = None, tags: str = "A") -> list[bytes]:
    bodies = [b"%04d" % number for number in range(count)]
    async with Producer("pg", name_servers=peers.address) as producer:
        for body in bodies:
            await producer.send(Message("T", body, tags=tags), queue)
    return bodies


def topics() -> dict[str, int]:
    return {"T": 4, "%RETRY%cg": 1}


def test_messages_sent_after_the_start_arrive_in_threads() -> None:
    async def test() -> None:
        inbox = Inbox()
        async with cluster(brokers=2, topics=topics()) as peers, consuming(peers, inbox) as consumer:
            assert len([queue for queue in consumer.assigned if queue.topic == "T"]) == 8
            bodies = await fill(peers, 100)
            await until(lambda: len(inbox.views) >= 100)
            assert inbox.bodies == bodies and set(inbox.sizes) == {1}
            assert all(name.startswith("gantrymq-consume") for name in inbox.threads)
            assert inbox.views[0].topic == "T" and inbox.views[0].tags == "A"

    run(test)


def test_an_async_listener_runs_as_tasks_of_the_loop() -> None:
    async def test() -> None:
        observed: list[bytes] = []

        async def listener(messages: list[MessageView]) -> ConsumeStatus:
            await asyncio.sleep(0)
            observed.extend(message.body for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        async with cluster(topics=topics()) as peers, consuming(peers, listener, consume_threads=3):
            bodies = await fill(peers, 50)
            await until(lambda: len(observed) >= 50)
            assert sorted(observed) == bodies

    run(test)


def test_batches_hold_up_to_the_size_that_was_set() -> None:
    async def test() -> None:
        inbox = Inbox()
        async with cluster(topics=topics()) as peers:
            bodies = await fill(peers, 40, MessageQueue("T", "broker-a", 0))
            async with consuming(peers, inbox, consume_batch_size=16, from_where=ConsumeFromWhere.FIRST_OFFSET):
                await until(lambda: len(inbox.views) >= 40)
                assert inbox.bodies == bodies and max(inbox.sizes) == 16

    run(test)


@pytest.mark.parametrize(
    ("from_where", "expected"),
    [(ConsumeFromWhere.LAST_OFFSET, 0), (ConsumeFromWhere.FIRST_OFFSET, 10), (ConsumeFromWhere.TIMESTAMP, 3)],
)
def test_where_a_new_group_begins(from_where: ConsumeFromWhere, expected: int) -> None:
    async def test() -> None:
        inbox = Inbox()
        queue = MessageQueue("T", "broker-a", 0)
        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers:
            bodies = await fill(peers, 10, queue)
            async with consuming(peers, inbox, from_where=from_where, timestamp_ms=12345):
                async with Producer("pg", name_servers=peers.address) as producer:
                    await producer.send(Message("T", b"later"), queue)
                await until(lambda: b"later" in inbox.bodies)
                assert inbox.bodies == [*bodies[10 - expected :], b"later"]

    run(test)


def test_a_topic_that_is_made_later_is_read_from_its_beginning() -> None:
    async def test() -> None:
        inbox = Inbox()
        async with cluster(topics={"%RETRY%cg": 1, "TBW102": 4}) as peers, consuming(peers, inbox):
            bodies = await fill(peers, 8)
            peers.topics["T"] = 4
            await until(lambda: len(inbox.views) >= 8)
            assert inbox.bodies == bodies

    run(test)


def test_progress_is_stored_and_a_successor_goes_on_there() -> None:
    async def test() -> None:
        first, second = Inbox(), Inbox()
        async with cluster(topics=topics()) as peers:
            async with consuming(peers, first):
                await fill(peers, 20)
                await until(lambda: len(first.views) >= 20)
            assert sum(offset for (_, topic, _), offset in peers.broker.offsets.items() if topic == "T") == 20
            unregistered = [c for c in peers.broker.requests if c.code == RequestCode.UNREGISTER_CLIENT]
            assert any(c.ext_fields().get("consumerGroup") == "cg" for c in unregistered)
            await fill(peers, 4)
            async with consuming(peers, second):
                await until(lambda: len(second.views) >= 4)
                assert len(second.views) == 4

    run(test)


def test_progress_is_stored_while_consuming() -> None:
    async def test() -> None:
        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers, consuming(peers, Inbox(), persist_interval_ms=20):
            await fill(peers, 5)
            await until(lambda: peers.broker.offsets.get(("cg", "T", 0)) == 5)

    run(test)


def test_tags_are_compared_as_text() -> None:
    async def test() -> None:
        inbox = Inbox()
        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers, consuming(peers, inbox, "A || C"):
            await fill(peers, 3, tags="B")
            await fill(peers, 2, tags="C")
            await until(lambda: len(inbox.views) >= 2)
            assert {view.tags for view in inbox.views} == {"C"}
            pulls = [c.header(PullMessage) for c in peers.broker.requests if c.code == RequestCode.PULL_MESSAGE]
            assert {pull.subscription for pull in pulls if pull.topic == "T"} == {"A || C"}
            subscription = peers.broker.beats[0].consumer_data_set[0].subscription_data_set
            assert {(data.topic, data.sub_string) for data in subscription} == {("T", "A || C"), ("%RETRY%cg", "*")}

    run(test)


@pytest.mark.parametrize("answer", [ConsumeStatus.RECONSUME_LATER, RuntimeError("no"), "nonsense"])
def test_what_is_not_consumed_is_given_back_and_counts_as_done_here(answer: Any) -> None:
    async def test() -> None:
        inbox = Inbox(answer)
        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers:
            async with consuming(peers, inbox, max_reconsume_times=7):
                await fill(peers, 1)
                await until(lambda: BACK in peers.broker.codes())
            header = next(c for c in peers.broker.requests if c.code == BACK).header(SendBack)
            view = inbox.views[0]
            assert (header.offset, header.group, header.delay_level) == (view.log_offset, "cg", 0)
            assert (header.origin_msg_id, header.origin_topic, header.max_reconsume_times) == (view.message_id, "T", 7)
            assert peers.broker.offsets["cg", "T", 0] == 1

    run(test)


def test_when_the_broker_does_not_take_it_back_a_copy_goes_to_the_retry_topic() -> None:
    async def test() -> None:
        inbox = Inbox(ConsumeStatus.RECONSUME_LATER)
        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers, consuming(peers, inbox):
            peers.broker.next(BACK, lambda s, c: encode_response(c, 1, remark="not found"))
            await fill(peers, 1)
            await until(lambda: peers.broker.queues.get(("%RETRY%cg", 0)))
            header = [c.header(SendMessage) for c in peers.broker.requests if c.code == 310][-1]
            sent = properties.decode(header.properties or "")
            assert (header.topic, header.reconsume_times, header.max_reconsume_times) == ("%RETRY%cg", 1, 16)
            assert header.producer_group == "CLIENT_INNER_PRODUCER"
            assert sent["RETRY_TOPIC"] == "T" and sent["DELAY"] == "3" and sent["TAGS"] == "A"
            assert sent["ORIGIN_MESSAGE_ID"] == sent["UNIQ_KEY"] == inbox.views[0].message_id
            # It comes again by the retry topic, under its own topic's name.
            await until(lambda: len(inbox.views) >= 2)
            assert inbox.views[1].topic == "T" and inbox.views[1].queue.topic == "%RETRY%cg"

    run(test)


def test_members_share_the_queues_and_a_notice_makes_them_do_it_at_once() -> None:
    async def test() -> None:
        async with (
            cluster(topics=topics()) as peers,
            consuming(peers, Inbox()) as first,
            consuming(peers, Inbox()) as second,
        ):
            assert first.client_id != second.client_id
            for session in peers.broker.sessions:
                notice = encode_request(40, 1, ConsumerIdsChanged(consumer_group="cg"), one_way=True)
                session.send(notice)

            def shares() -> list[set[MessageQueue]]:
                return [{q for q in one.assigned if q.topic == "T"} for one in (first, second)]

            await until(lambda: [len(share) for share in shares()] == [2, 2])
            assert not shares()[0] & shares()[1]

    run(test)


def test_an_offset_that_is_gone_moves_to_where_the_broker_says() -> None:
    async def test() -> None:
        inbox = Inbox()
        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers:
            bodies = await fill(peers, 3)
            peers.broker.offsets["cg", "T", 0] = 900

            def moved(session: Any, command: Any) -> bytes:
                header = command.header(PullMessage)
                if header.topic != "T":
                    return peers.broker.answer_pull(command, header)
                answer = PullMessageAnswer(suggest_which_broker_id=0, next_begin_offset=1, min_offset=1, max_offset=3)
                return encode_response(command, 21, answer)

            peers.broker.next(RequestCode.PULL_MESSAGE, moved, moved)
            async with consuming(peers, inbox):
                await until(lambda: len(inbox.views) >= 2)
                assert inbox.bodies == bodies[1:]

    run(test)


def test_pulling_pauses_while_too_much_waits_for_the_listener() -> None:
    async def test() -> None:
        release = threading.Event()
        inbox = Inbox()

        def slow(messages: list[MessageView]) -> None:
            release.wait(20)
            inbox(messages)

        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers:
            await fill(peers, 200)
            settings: dict[str, Any] = {"max_messages_per_queue": 30, "consume_threads": 2, "pull_batch_size": 32}
            async with consuming(peers, slow, from_where=ConsumeFromWhere.FIRST_OFFSET, **settings):
                await until(lambda: RequestCode.PULL_MESSAGE in peers.broker.codes())

                def pulled() -> list[int]:
                    pulls = [c.header(PullMessage) for c in peers.broker.requests if c.code == RequestCode.PULL_MESSAGE]
                    return [pull.queue_offset for pull in pulls if pull.topic == "T"]

                beats = len(peers.broker.requests)
                await until(lambda: len(peers.broker.requests) > beats + 3)
                assert pulled() == [0]
                release.set()
                await until(lambda: len(inbox.views) >= 200)

    run(test)


def test_close_waits_for_the_listener_and_drops_what_was_not_begun() -> None:
    async def test() -> None:
        release, begun = threading.Event(), threading.Event()
        inbox = Inbox()

        def slow(messages: list[MessageView]) -> None:
            begun.set()
            release.wait(20)
            inbox(messages)

        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers:
            await fill(peers, 10)
            consumer = PushConsumer(
                "cg", name_servers=peers.address, listener=slow, consume_threads=1,
                from_where=ConsumeFromWhere.FIRST_OFFSET,
            ).subscribe("T")  # fmt: skip
            await consumer.start()
            await until(begun.is_set)
            closing = asyncio.create_task(consumer.close())
            await asyncio.sleep(0)
            release.set()
            await closing
            assert len(inbox.views) == 1 and peers.broker.offsets["cg", "T", 0] == 1
            assert BACK not in peers.broker.codes()
            with pytest.raises(Closed):
                await consumer.start()

    run(test)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("orderly", [False, True])
def test_a_cancelled_close_leaves_the_group_and_can_be_called_again(late: bool, orderly: bool) -> None:
    """It stayed a member that heartbeats and consumes nothing: its queues were nobody's for as long as it lived."""

    async def listen(messages: list[MessageView]) -> None:
        await asyncio.sleep(0.05)

    async def test() -> None:
        async with cluster(topics=topics()) as peers:
            await fill(peers, 4)
            for step in range(60):
                consumer = PushConsumer(
                    "cg", name_servers=peers.address, listener=listen, orderly=orderly,
                    from_where=ConsumeFromWhere.FIRST_OFFSET,
                ).subscribe("T")  # fmt: skip
                await consumer.start()
                await asyncio.sleep(0.01)
                cancelled, _ = await cancelled_at(consumer.close(), step, late=late)
                await consumer.close()
                assert consumer._endpoint.remoting.connected_addresses() == []
                assert not consumer._endpoint.tasks._tasks
                peers.broker.offsets.clear()
                if not cancelled:
                    return
            raise AssertionError("never ends")

    run(test)


def test_a_restarted_broker_is_read_again() -> None:
    async def test() -> None:
        from tests.client.peer import ScriptedBroker

        inbox = Inbox()
        async with cluster(topics={"T": 1, "%RETRY%cg": 1}) as peers, consuming(peers, inbox):
            await fill(peers, 2)
            await until(lambda: len(inbox.views) == 2)
            old, new = peers.brokers[0], ScriptedBroker("broker-a")
            await old.server.close()
            new.queues, new.position = old.queues, old.position
            new.address = await new.server.start("127.0.0.1", 0)
            peers.brokers[0] = new
            await fill(peers, 3)
            await until(lambda: len(inbox.views) >= 5)
            assert any(beat.consumer_data_set for beat in new.beats)

    run(test)


def test_what_is_wrong_is_said_at_once() -> None:
    async def test() -> None:
        with pytest.raises(ConfigError, match="callable"):
            PushConsumer("cg", name_servers="h:1", listener=None)  # type: ignore[arg-type]
        with pytest.raises(MessageIllegal, match="topic"):
            PushConsumer("cg", name_servers="h:1", listener=Inbox()).subscribe("bad topic")
        with pytest.raises(ConfigError, match="subscribe"):
            await PushConsumer("cg", name_servers="h:1", listener=Inbox()).start()
        with pytest.raises(Unreachable, match="gantry server"):
            await PushConsumer("cg", name_servers="127.0.0.1:1", listener=Inbox()).subscribe("T").start()
        async with cluster(topics=topics()) as peers, consuming(peers, Inbox()) as consumer:
            with pytest.raises(ConfigError, match="before start"):
                consumer.subscribe("U")

    run(test)
