"""What Apache's 5.5.0 broker exports to Prometheus and what ours does, after the same messages: names, kinds, labels
and the figures of the test's own topics.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gantrymq import LocalTransactionState, Message, MessageView, PushConsumer, TransactionProducer
from gantrymq.demo.ports import free_port
from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster
from tests.interop.pops import PopBroker
from tests.interop.process import poll

OF_APACHE_ALONE = {"otel_scope_name"}
"""Labels that ours do not have: it is always "broker-meter"."""
OF_OURS_ALONE = {"is_retry"}
"""Labels that Apache's broker leaves out where they are false."""
OWN_BUCKETS = {"rocketmq_finish_message_latency_milliseconds"}
"""Histograms whose buckets are not Apache's: it declares milliseconds and counts seconds."""
NOT_HERE = {
    "rocketmq_processor_watermark": "lengths of the queues of Java's thread pools",
    "rocketmq_pop_buffer_scan_time_consume_milliseconds": "we have no buffer of check points",
    "rocketmq_pop_checkpoint_buffer_size": "we have no buffer of check points",
    "rocketmq_pop_offset_buffer_size": "we have no buffer of check points",
    "rocketmq_topic_create_execution_time_milliseconds": "rocketmq_rpc_latency_milliseconds has it",
    "rocketmq_consumer_group_create_execution_time_milliseconds": "rocketmq_rpc_latency_milliseconds has it",
}
"""Metrics of Apache's broker that ours does not have, and why."""
TOPIC, POPPED = "measured", "measured-popped"
Scrape = dict[str, Metric]


class Listener:
    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState[str(arg)]

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def scrape(port: int) -> Scrape:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


def labels_of(family: Metric) -> set[str]:
    """Of all its samples together."""
    return {label for sample in family.samples for label in sample.labels} - {"le"}


def buckets_of(family: Metric) -> set[float]:
    return {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}


def figures(found: Scrape, name: str, *labels: str, **wanted: str) -> dict[tuple[str, ...], float]:
    """The samples with the wanted labels, by the values of others; empty when the metric is not there.

    Without sums of histograms: ours have parts of seconds."""
    samples = [sample for sample in found[name].samples if not sample.name.endswith("_sum")] if name in found else []
    return {
        tuple(sample.labels.get(label, "") for label in labels): sample.value
        for sample in samples
        if all(sample.labels.get(label) == value for label, value in wanted.items())
    }


def play(cluster: ApacheCluster | GantryCluster, measured: Callable[[], Scrape]) -> Scrape:
    """Messages of all types and ends of all kinds, a group that gives up, and pops: then what the broker exports."""
    popping = PopBroker(cluster)
    popping.prepare(TOPIC, "measured-group", retryMaxTimes=0)
    popping.prepare(POPPED, "measured-pops")
    seen: list[MessageView] = []

    def listen(messages: list[MessageView]) -> None:
        seen.extend(messages)
        if any(message.body == b"bad" for message in messages):
            raise ValueError("a listener that fails")

    servers = cluster.name_servers
    with TransactionProducer("measured-producer", name_servers=servers, listener=Listener()) as producer:
        for state in ("COMMIT", "ROLLBACK", "UNKNOWN"):
            producer.send_in_transaction(Message(TOPIC, state), arg=state)
        producer.send(Message(TOPIC, "bad"))
        producer.send(Message(TOPIC, bytes(5_000)))
        producer.send(Message(TOPIC, "late", delay_level=1))
        producer.send(Message(TOPIC, "much later", delay_ms=600_000))
        for number in range(4):
            popping.send(POPPED, f"p-{number}")
        _, taken = popping.pop(POPPED, "measured-pops", max_msg_nums=2)
        popping.ack(POPPED, "measured-pops", taken[0][2])
        popping.pop(POPPED, "measured-pops", max_msg_nums=1, invisible_time=1_000)
        consumer = PushConsumer(
            "measured-group", name_servers=servers, listener=listen, max_reconsume_times=0
        ).subscribe(TOPIC)
        with consumer:
            poll(lambda: len(seen) >= 4, "the messages of the topic")
            return settled(measured)


def settled(measured: Callable[[], Scrape]) -> Scrape:
    """Scraped when what goes on behind has come to its end."""

    def done() -> bool:
        found = measured()
        return (
            figures(found, "rocketmq_pop_revive_retry_messages", topic=POPPED) != {}
            and sum(figures(found, "rocketmq_send_to_dlq_messages", consumer_group="measured-group").values()) > 0
            and sum(figures(found, "rocketmq_timing_messages", topic=TOPIC).values()) == 1
        )

    poll(done, "the figures of pops, dead letters and timers", seconds=90)
    return measured()


def test_ours_exports_what_apaches_broker_exports(apache_5: ApacheCluster, tmp_path: Path) -> None:
    ours = GantryCluster(tmp_path)
    try:
        ours.start_name_server()
        port = free_port()
        ours.start_broker(httpPort=port, transactionTimeOut=60_000)
        here = play(ours, lambda: scrape(port))
    finally:
        ours.close()
    there = play(apache_5, lambda: scrape(apache_5.metrics_port))
    for name, family in there.items():
        if not name.startswith("rocketmq_") or name in NOT_HERE:
            continue
        assert name in here, f"Apache's {name} is missing, with {labels_of(family)}"
        assert here[name].type == family.type, name
        missing = labels_of(family) - OF_APACHE_ALONE - labels_of(here[name])
        assert not missing or not here[name].samples, f"{name} lacks {missing}"
        assert labels_of(here[name]) - labels_of(family) <= OF_OURS_ALONE, name
        assert name in OWN_BUCKETS or buckets_of(here[name]) == buckets_of(family), name
    for name, labels, wanted in COMPARED:
        assert figures(here, name, *labels, **wanted) == figures(there, name, *labels, **wanted), name


BY_GROUP = {"consumer_group": "measured-pops", "topic": POPPED}
COMPARED = (
    ("rocketmq_commit_messages", (), {"topic": TOPIC}),
    ("rocketmq_rollback_messages", (), {"topic": TOPIC}),
    ("rocketmq_half_messages", (), {"topic": TOPIC}),
    ("rocketmq_messages_in", ("message_type",), {"topic": POPPED}),
    ("rocketmq_messages_in", ("is_system",), {"topic": TOPIC, "message_type": "normal"}),
    ("rocketmq_messages_in", ("is_system",), {"topic": TOPIC, "message_type": "delay"}),
    ("rocketmq_consumer_lag_messages", ("is_retry",), BY_GROUP),
    ("rocketmq_consumer_ready_messages", ("is_retry",), BY_GROUP),
    ("rocketmq_consumer_inflight_messages", ("is_retry",), BY_GROUP),
    ("rocketmq_pop_revive_in_message", ("revive_message_type", "put_status"), BY_GROUP),
    ("rocketmq_pop_revive_out_message", ("revive_message_type",), BY_GROUP),
    ("rocketmq_pop_revive_retry_messages", ("put_status",), BY_GROUP),
    ("rocketmq_timing_messages", (), {"topic": TOPIC}),
    ("rocketmq_timer_enqueue", (), {"topic": TOPIC}),
    ("rocketmq_send_to_dlq_messages", ("topic", "is_system"), {"consumer_group": "measured-group"}),
    ("rocketmq_delay_message_latency_seconds", ("le", "storage_type", "storage_medium"), {"topic": TOPIC}),
)
"""Metric, the labels that tell its samples apart, and which samples."""
