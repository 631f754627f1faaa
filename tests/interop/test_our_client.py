"""Our producer, lite pull consumer and queries against Apache's servers and ours: the same bodies of tests for each."""

from __future__ import annotations

import time

import pytest

import gantrymq
from gantrymq import ConsumeFromWhere, Message, MessageView
from tests.interop.our_client import PATIENT, SOON, Inbox, Server, make_topic, send_all, until

FIRST = ConsumeFromWhere.FIRST_OFFSET


def producer_of(server: Server, topic: str, **settings: object) -> gantrymq.Producer:
    return gantrymq.Producer(f"P{topic}", name_servers=server.name_servers, **{**PATIENT, **settings})  # type: ignore[arg-type]


def read_all(server: Server, topic: str, count: int) -> list[MessageView]:
    """The first ``count`` messages of a topic, queue by queue."""
    found: list[MessageView] = []
    with gantrymq.PullConsumer(name_servers=server.name_servers, call_timeout_ms=10_000) as reader:

        def look() -> bool:
            found[:] = [view for queue in reader.queues(topic) for view in reader.pull(queue, 0).messages]
            return len(found) >= count

        until(look, lambda: f"{len(found)} of {count} messages")
    return found


@pytest.mark.feature("send: sync, async, one-way", "pull: pull consumer", "send: compressed")
def test_what_is_sent_is_read_as_it_was(server: Server) -> None:
    topic = make_topic(server, "OurPlain")
    big = "compress me " * 1000
    with producer_of(server, topic) as producer:
        sent = producer.send(Message(topic, "höher", tags="T", keys=["k1", "k2"], properties={"farbe": "grün"}, flag=7))
        producer.send_async(Message(topic, "async")).result(30)
        producer.send_oneway(Message(topic, "one-way"))
        producer.send(Message(topic, "no wait", wait=False))
        producer.send(Message(topic, big))
    found = {view.body.decode(): view for view in read_all(server, topic, 5)}
    assert set(found) == {"höher", "async", "one-way", "no wait", big}
    view = found["höher"]
    assert (view.tags, view.keys, view.flag, view.properties["farbe"]) == ("T", ["k1", "k2"], 7, "grün")
    assert (view.message_id, view.offset_message_id) == (sent.message_id, sent.offset_message_id)
    assert (view.queue, view.queue_offset) == (sent.queue, sent.queue_offset)
    assert found[big].compressed_when_stored and not view.compressed_when_stored


@pytest.mark.feature("send: compressed")
@pytest.mark.parametrize(("kind", "library"), [("LZ4", "lz4.frame"), ("ZSTD", "zstandard")])
def test_other_compressions_come_back(server: Server, kind: str, library: str) -> None:
    pytest.importorskip(library)
    topic = make_topic(server, f"Our{kind}", 1)
    with producer_of(server, topic, compress_type=kind) as producer:
        producer.send(Message(topic, "0123456789" * 1000))
    (view,) = read_all(server, topic, 1)
    assert view.body == b"0123456789" * 1000 and view.compressed_when_stored


@pytest.mark.feature("send: batch")
def test_batches_are_split_by_size_and_keep_their_order(server: Server) -> None:
    topic = make_topic(server, "OurBatch", 1)
    bodies = [f"{number:04}" + "x" * 1000 for number in range(100)]
    with producer_of(server, topic, batch_bytes=20_000) as producer:
        results = producer.send_batches([Message(topic, body, tags="T", keys=f"b{n}") for n, body in enumerate(bodies)])
        assert len(results) > 3
        (queue,) = producer.queues(topic)
    with gantrymq.PullConsumer(name_servers=server.name_servers, call_timeout_ms=10_000) as reader:
        until(lambda: reader.max_offset(queue) == 100)
        found: list[MessageView] = []
        while len(found) < 100:
            found += reader.pull(queue, len(found)).messages
    assert [view.body.decode() for view in found] == bodies
    assert ",".join(view.message_id for view in found) == ",".join(result.message_id for result in results)


@pytest.mark.feature("send: too big is refused")
def test_a_body_over_the_brokers_limit_is_refused(server: Server) -> None:
    topic = make_topic(server, "OurTooBig", 1)
    generous = producer_of(server, topic, max_message_bytes=6 * 1024 * 1024, compress_over_bytes=1 << 30)
    with generous as producer, pytest.raises(gantrymq.GantryError, match="13"):
        producer.send(Message(topic, b"x" * (4 * 1024 * 1024 + 1)))
    with producer_of(server, topic) as producer, pytest.raises(gantrymq.GantryError, match="limit"):
        producer.send(Message(topic, b"x" * (4 * 1024 * 1024 + 1)))


@pytest.mark.feature("send: delay level")
def test_a_delay_level_is_kept(server: Server) -> None:
    topic = make_topic(server, "OurDelay")
    inbox = Inbox()
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, **SOON
    )
    with consumer.subscribe(topic), producer_of(server, topic) as producer:
        begun = time.monotonic()
        producer.send(Message(topic, "late", delay_level=2))
        producer.send(Message(topic, "at once"))
        inbox.wait(["late", "at once"])
    assert inbox.bodies == ["at once", "late"] and inbox.times[1] - begun > 4


@pytest.mark.feature("send: timer", "send: recall")
def test_timers_are_kept_and_can_be_recalled(server: Server) -> None:
    if server.version == "4.9.7":
        pytest.skip("not in RocketMQ 4")
    topic = make_topic(server, "OurTimer")
    inbox = Inbox()
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, **SOON
    )
    with consumer.subscribe(topic), producer_of(server, topic) as producer:
        begun = time.monotonic()
        recalled = producer.send(Message(topic, "recalled", delay_ms=15_000))
        assert recalled.recall_handle is not None
        assert producer.recall(topic, recalled.recall_handle) == recalled.message_id
        producer.send(Message(topic, "delayed", delay_ms=3_000))
        producer.send(Message(topic, "dated", deliver_at_ms=int(time.time() * 1000) + 18_000))
        inbox.wait(["delayed", "dated"])  # the second one after what was recalled would have come
        with pytest.raises(gantrymq.GantryError):
            producer.recall(topic, recalled.recall_handle + "x")
    assert inbox.bodies == ["delayed", "dated"]
    assert inbox.times[0] - begun > 1.5 and inbox.times[1] - begun > 16


@pytest.mark.feature("send: request-reply")
def test_a_request_gets_its_reply(server: Server) -> None:
    topic = make_topic(server, "OurRequest")
    with producer_of(server, topic) as producer, gantrymq.Producer(
        f"R{topic}", name_servers=server.name_servers, **PATIENT
    ) as replier:  # fmt: skip

        def answer(view: MessageView) -> None:
            if view.body != b"mute":
                replier.reply(view, b"re: " + view.body)

        inbox = Inbox(answer)
        consumer = gantrymq.PushConsumer(
            f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, **SOON
        )
        with consumer.subscribe(topic):
            answers = [producer.request(Message(topic, f"question {n}"), 30_000).body for n in range(5)]
            assert answers == [b"re: question %d" % n for n in range(5)]
            with pytest.raises(gantrymq.GantryError, match="reply"):
                producer.request(Message(topic, "mute"), 1_000)


@pytest.mark.feature("query: id, key, unique key")
def test_messages_are_found_by_id_and_keys(server: Server) -> None:
    topic = make_topic(server, "OurQuery")
    with producer_of(server, topic) as producer:
        sent = [producer.send(Message(topic, f"q{n}", tags="T", keys=["all", f"key{n}"])) for n in range(5)]
    with gantrymq.Admin(server.name_servers, call_timeout_ms=10_000) as admin:
        messages = admin.messages
        until(lambda: len(messages.by_key(topic, "all")) == 5, "five messages by one key")
        assert [view.body for view in messages.by_key(topic, "key3")] == [b"q3"]
        assert messages.by_key(topic, "nobody") == []
        assert [view.body for view in messages.by_unique_key(topic, sent[2].message_id)] == [b"q2"]
        found = messages.by_place_id(sent[4].offset_message_id)
        assert found is not None and found.body == b"q4" and found.message_id == sent[4].message_id


@pytest.mark.feature("namespace")
def test_names_are_prefixed_on_the_wire_and_not_in_the_program(server: Server) -> None:
    space = "ns"
    make_topic(server, f"{space}%OurSpace")
    topic = make_topic(server, "OurSpace")
    inbox = Inbox(lambda view: gantrymq.ReconsumeLater(delay_level=1) if not view.reconsume_times else None)
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=FIRST, namespace=space, **SOON
    )
    with consumer.subscribe(topic), producer_of(server, topic, namespace=space) as producer:
        result = producer.send(Message(topic, "inside"))
        assert result.queue.topic == f"{space}%{topic}"
        until(lambda: inbox.bodies == ["inside", "inside"], inbox.bodies)
    assert {view.topic for view in inbox.views} == {topic}


@pytest.mark.feature("pull: lite pull, seek")
def test_polling_seeking_and_committing(server: Server) -> None:
    topic = make_topic(server, "OurLite", 2)
    send_all(server, topic, [f"{number:02}" for number in range(20)], tags="A")
    settings = {"poll_timeout_ms": 500, "from_where": FIRST, "call_timeout_ms": 10_000, "auto_commit": False}

    def polled(consumer: gantrymq.LitePullConsumer, count: int) -> list[str]:
        found: list[str] = []
        until(lambda: found.extend(view.body.decode() for view in consumer.poll()) or len(found) >= count, found)
        return found

    def member() -> gantrymq.LitePullConsumer:
        return gantrymq.LitePullConsumer(f"G{topic}", name_servers=server.name_servers, **settings)  # type: ignore[arg-type]

    with member().subscribe(topic, "A || B") as consumer:
        assert sorted(polled(consumer, 20)) == [f"{number:02}" for number in range(20)]
        one, two = consumer.assigned
        half = consumer.committed(one) or 0
        consumer.commit()
        until(lambda: consumer.committed(one) == 10 and consumer.committed(two) == 10, half)
        consumer.seek(one, 8)
        assert len(polled(consumer, 2)) == 2
        consumer.seek_to_begin(one)
        assert len(polled(consumer, 10)) == 10
        consumer.pause([one])
        consumer.seek_to_begin(one)
        assert consumer.poll(1_000) == []
        consumer.resume([one])
        assert len(polled(consumer, 10)) == 10
        consumer.seek_to_begin(two)
        consumer.seek_to_end(two)
        assert consumer.poll(500) == []
        assert consumer.offset_for_timestamp(one, 0) == 0
        with pytest.raises(gantrymq.GantryError, match="outside"):
            consumer.seek(one, 11)
    with member() as consumer:
        send_all(server, topic, ["new", "newer"], tags="B")
        consumer.assign([one])
        assert polled(consumer, 1)[0].startswith("new")
        consumer.commit({one: 3})
        assert consumer.committed(one) == 3
        consumer.assign([one, two])
        assert polled(consumer, 1)[0].startswith("new") and consumer.assigned == [one, two]
