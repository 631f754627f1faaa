"""What tools ask about progress and connections, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.groups import GroupList
from gantrymq.protocol.bodies.progress import (
    ConsumeQueueEntries,
    ConsumerConnections,
    ConsumeStats,
    ConsumeStatsList,
    CorrectionOffsets,
    ProducerConnections,
    ProducerTable,
    SubscriptionAnswer,
    TimeSpans,
    TopicStats,
)
from gantrymq.protocol.bodies.topics import TopicList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers import tools
from gantrymq.protocol.headers.pull import PullMessageAnswer
from gantrymq.protocol.headers.topics import TopicOnly
from tests.support.brokers import Cluster, on_broker
from tests.support.consumers import Consumer

HOUR_MS = 3_600_000


async def three_messages(c: Cluster) -> Consumer:
    """A topic with 2 queues, 3 messages, and a member that has pulled all of them and consumed one of the first two."""
    await c.create_topic("T", 2)
    for queue_id in (0, 0, 1):
        await c.sent("T", queue_id=queue_id)
    consumer = Consumer(c, "one")
    await consumer.beat("T")
    for queue_id in (0, 1):
        answer = (await consumer.pull("T", queue_id, 0)).header(PullMessageAnswer)
        await consumer.pull("T", queue_id, answer.next_begin_offset)
    await consumer.commit("T", 0, 1)
    return consumer


def test_topics_and_groups_by_queue(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = await three_messages(c)
        first, second = (MessageQueue("T", "broker-a", queue_id) for queue_id in (0, 1))
        answer = await c.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicOnly(topic="T"))
        assert b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{' in answer.body, "not every client takes texts"
        stats = TopicStats.decode(answer.body)
        assert {queue: entry.max_offset for queue, entry in stats.by_queue().items()} == {first: 2, second: 1}
        assert all(entry.last_update_timestamp > 0 for entry in stats.offset_table.values())
        assert stats.topic_put_tps is not None and stats.topic_put_tps > 0
        answer = await c.ask(RequestCode.GET_CONSUME_STATS, tools.GetConsumeStats(consumer_group="CG"))
        progress = ConsumeStats.decode(answer.body)
        table = progress.by_queue()
        assert [(table[q].consumer_offset, table[q].broker_offset, table[q].pull_offset) for q in (first, second)] == [
            (1, 2, 2), (0, 1, 1),
        ]  # fmt: skip
        assert (table[first].last_timestamp > 0, table[second].last_timestamp) == (True, 0)
        assert progress.consume_tps > 0
        only = tools.GetConsumeStats(consumer_group="CG", topic_list="U;V")
        assert not ConsumeStats.decode((await c.ask(RequestCode.GET_CONSUME_STATS, only)).body).offset_table
        answer = await c.ask(RequestCode.GET_BROKER_CONSUME_STATS, tools.BrokerConsumeStats(is_order=False))
        everything = ConsumeStatsList.decode(answer.body)
        assert (everything.total_diff, everything.total_inflight_diff) == (2, 2)
        assert everything.broker_addr == c.broker.address
        groups = GroupList.decode((await c.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicOnly(topic="T"))).body)
        assert groups.group_list == ["CG"]
        topics = await c.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, tools.GroupTopics(group="CG"))
        assert TopicList.decode(topics.body).topic_list == ["T"]
        await consumer.close()

    on_broker(work, tmp_path)


def test_what_is_unknown_is_said_so(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for code, header, expected in (
            (RequestCode.GET_TOPIC_STATS_INFO, TopicOnly(topic="No"), ResponseCode.TOPIC_NOT_EXIST),
            (RequestCode.QUERY_CONSUME_TIME_SPAN, tools.TopicAndGroup(topic="No", group="CG"),
             ResponseCode.TOPIC_NOT_EXIST),
            (RequestCode.GET_CONSUMER_CONNECTION_LIST, tools.ConsumerGroupOnly(consumer_group="No"),
             ResponseCode.CONSUMER_NOT_ONLINE),
            (RequestCode.GET_PRODUCER_CONNECTION_LIST, tools.ProducerGroupOnly(producer_group="No"),
             ResponseCode.SYSTEM_ERROR),
            (RequestCode.VIEW_BROKER_STATS_DATA, tools.StatsKey(stats_name="No", stats_key="T"),
             ResponseCode.SYSTEM_ERROR),
            (RequestCode.QUERY_CONSUME_QUEUE, tools.QueryConsumeQueue(topic="No", queue_id=0, index=0, count=1),
             ResponseCode.SYSTEM_ERROR),
            (RequestCode.GET_CONSUMER_RUNNING_INFO, tools.ClientOfGroup(consumer_group="No", client_id="x"),
             ResponseCode.SYSTEM_ERROR),
        ):  # fmt: skip
            answer = await c.ask(code, header)
            assert (answer.code, bool(answer.remark)) == (expected, True), code

    on_broker(work, tmp_path)


def test_who_is_connected(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = Consumer(c, "one")
        await consumer.beat("T")
        answer = await c.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, tools.ConsumerGroupOnly(consumer_group="CG"))
        group = ConsumerConnections.decode(answer.body)
        assert [connection.client_id for connection in group.connection_set] == ["one"]
        assert group.consume_type == "CONSUME_PASSIVELY"
        assert group.subscription_table["T"].sub_string == "*"
        answer = await c.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, tools.ProducerGroupOnly(producer_group="PG"))
        connection = ProducerConnections.decode(answer.body).connection_set[0]
        assert (connection.client_id, connection.client_addr.startswith("127.0.0.1:")) == ("one", True)
        table = ProducerTable.decode((await c.ask(RequestCode.GET_ALL_PRODUCER_INFO)).body)
        assert [producer.client_id for producer in table.data["PG"]] == ["one"]
        assert table.data["PG"][0].remote_ip.startswith("/127.0.0.1:"), "as Java writes an address"
        assert table.data["PG"][0].last_update_timestamp > 0
        asked = tools.GroupSubscription(group="CG", topic="T")
        found = SubscriptionAnswer.decode((await c.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, asked)).body)
        assert found.subscription_data is not None and found.subscription_data.topic == "T"
        await consumer.close()

    on_broker(work, tmp_path)


def test_offsets_are_compared_and_cloned(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = await three_messages(c)
        answer = await c.ask(
            RequestCode.CLONE_GROUP_OFFSET, tools.CloneOffsets(src_group="CG", dest_group="Copy", offline=True)
        )
        assert answer.code == ResponseCode.SUCCESS
        assert c.broker.offsets.of_topic("Copy", "T") == {0: 1}
        c.broker.offsets.commit("Ahead", "T", 0, 2)
        asked = tools.CorrectionOffset(topic="T", compare_group="Ahead", filter_groups="CG")
        least = CorrectionOffsets.decode((await c.ask(RequestCode.QUERY_CORRECTION_OFFSET, asked)).body)
        assert least.correction_offsets == {0: 1}
        await consumer.close()

    on_broker(work, tmp_path)


def test_entries_and_times_of_queues(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = await three_messages(c)
        asked = tools.QueryConsumeQueue(topic="T", queue_id=0, index=1, count=10, consumer_group="CG")
        found = ConsumeQueueEntries.decode((await c.ask(RequestCode.QUERY_CONSUME_QUEUE, asked)).body)
        assert (found.min_queue_index, found.max_queue_index, len(found.queue_data)) == (0, 2, 1)
        entry = c.broker.store.entry("T", 0, 1)
        assert entry is not None and found.queue_data[0].physic_offset == entry.log_offset
        assert found.subscription_data is not None
        answer = await c.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, tools.TopicAndGroup(topic="T", group="CG"))
        spans = TimeSpans.decode(answer.body).consume_time_span_set
        assert [span.message_queue.queue_id for span in spans] == [0, 1]
        assert 0 < spans[0].min_time_stamp <= spans[0].consume_time_stamp <= spans[0].max_time_stamp
        assert 0 <= spans[0].delay_time < HOUR_MS
        await consumer.close()

    on_broker(work, tmp_path)


@pytest.mark.parametrize("topic", ["T", "%RETRY%CG"])
def test_a_group_that_is_forbidden_a_topic_cannot_pull_it(tmp_path: Path, topic: str) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic(topic, 1)
        forbid = tools.UpdateForbidden(group="CG", topic=topic, readable=False)
        assert (await c.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, forbid)).code == ResponseCode.SUCCESS
        assert (await c.pull(topic)).code == ResponseCode.NO_PERMISSION
        allow = tools.UpdateForbidden(group="CG", topic=topic, readable=True)
        await c.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, allow)
        assert (await c.pull(topic)).code == ResponseCode.PULL_NOT_FOUND

    on_broker(work, tmp_path)
