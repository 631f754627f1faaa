"""All metrics of a broker: what is declared, what it reads, and that the documentation says the same."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import yaml

from gantrymq.broker.grpc.latency import PROXY_UP
from gantrymq.broker.metrics import lag, messages, storage, transactions
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.broker.upkeep.statistics import BROKER_PUT_NUMS, TOPIC_PUT_NUMS
from gantrymq.demo.ports import free_port
from gantrymq.message.system_topics import PARKED
from gantrymq.observability.metrics import Histogram, Metric, MetricKind
from gantrymq.observability.rpc_latency import RPC_LATENCY
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.tools import ResumeCheck, StatsKey
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id, parse_offset_message_id
from gantrymq.transactions.table.decisions import Cause
from tests.support.brokers import Cluster, cluster, on_broker, until
from tests.support.grpc_client import GrpcClient, message

DOCS = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ALERTS = [
    rule
    for group in yaml.safe_load((DOCS.parents[1] / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
    if "increase(" in rule["expr"]
]
"""The rules that count what is new."""
HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{}\x02"
COMMIT, ROLL_BACK = 8, 12


def row(metric: Metric) -> str:
    """The line of the table in docs/metrics.md."""
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.help} |"


async def half(running: Cluster, key: str, topic: str = "Orders") -> tuple[int, int]:
    sent = await running.sent(topic, properties=HALF.format(key))
    return sent.queue_offset, int(sent.msg_id[16:], 16)


async def end(running: Cluster, key: str, place: tuple[int, int], kind: int) -> None:
    queue_offset, log_offset = place
    header = EndTransaction(
        producer_group="PG", tran_state_table_offset=queue_offset, commit_log_offset=log_offset,
        commit_or_rollback=kind, msg_id=key, transaction_id=key,
    )  # fmt: skip
    await running.ask(RequestCode.END_TRANSACTION, header)


def test_the_documentation_lists_what_is_declared(tmp_path: Path) -> None:
    declared: list[Metric] = []

    async def work(running: Cluster) -> None:
        declared.extend(running.broker.metrics.declared())

    on_broker(work, tmp_path)
    section = DOCS.read_text("utf-8").split("\n## Broker\n")[1].split("\n## ")[0]
    listed = re.findall(r"(?m)^\| `(?:rocketmq|gantry)_.*$", section)
    assert listed == [row(metric) for metric in declared], "\n".join(row(metric) for metric in declared)


def test_the_metrics_of_the_grpc_door_are_listed_and_count_calls(tmp_path: Path) -> None:
    async def work() -> None:
        port = free_port()
        async with (
            asyncio.timeout(60),
            cluster(tmp_path, grpc_port=port) as running,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            await running.create_topic("orders")
            client = GrpcClient(channel)
            for topic in ("orders", "orders", "unknown"):
                await client.send(message(topic))
            await client.receive("orders", seconds=0)
            metrics = running.broker.metrics
            counted = {
                labels: sum(latency.counts)
                for labels, latency in metrics.read(RPC_LATENCY.name).items()
                if labels[0] == "grpc" and isinstance(latency, Histogram)
            }
            assert counted == {
                ("grpc", "send_message", "ok", "false", "success"): 2,
                ("grpc", "send_message", "topic_not_found", "false", "success"): 1,
                ("grpc", "receive_message", "ok", "true", "success"): 1,
            }
            assert any(labels[0] == "remoting" for labels in metrics.read(RPC_LATENCY.name))
            assert metrics.read(PROXY_UP.name) == {("local",): 1}
            section = DOCS.read_text("utf-8").split("\n## The gRPC door\n")[1].split("\n## ")[0]
            assert row(PROXY_UP) in section

    asyncio.run(work())


def test_names_follow_the_rules_of_prometheus(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        names = {metric.name for metric in running.broker.metrics.declared()}
        for metric in running.broker.metrics.declared():
            assert re.fullmatch(r"(rocketmq|gantry)_[a-z_]+", metric.name)
            assert f"{metric.name}_total" not in names, f"to a parser {metric.name} and {metric.name}_total are one"
            assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
            assert metric.help.endswith(".") and metric.help[0].isupper(), metric.name

    on_broker(work, tmp_path)


def test_every_counter_of_transactions_is_a_metric() -> None:
    plain = {field.name for field in dataclasses.fields(TransactionCounts) if field.default == 0}
    by_topic = {field.name for field in dataclasses.fields(TransactionCounts)} - plain
    assert plain == transactions.COUNTED.keys() and by_topic == {"commit_latency", "rolled_back"}


def test_transactions_are_measured(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        metrics = running.broker.metrics
        committed, rolled_back, _ = [await half(running, key) for key in ("A", "B", "C")]
        assert metrics.read(transactions.HALVES.name) == {("Orders",): 3}
        assert metrics.read(transactions.HALVES_BY_GROUP.name) == {("PG",): 3}
        assert metrics.total(transactions.WITHOUT_PRODUCER.name) == 1, "nobody sent a heartbeat"
        assert metrics.total("gantry_transaction_halves_total") == 3
        await end(running, "A", committed, COMMIT)
        await end(running, "B", rolled_back, ROLL_BACK)
        assert metrics.read(transactions.COMMITS.name) == {("Orders",): 1}
        assert metrics.read(transactions.ROLLBACKS.name) == {("Orders",): 1}
        assert metrics.read(transactions.HALVES.name) == {("Orders",): 1}
        latency = metrics.read(transactions.LATENCY.name)[("Orders",)]
        assert isinstance(latency, Histogram)
        assert latency.counts == [1, 0, 0, 0, 0, 0, 0] and 0 <= latency.sum <= 5_000
        assert metrics.total(transactions.OLDEST.name) >= 0

    on_broker(work, tmp_path)


def test_messages_are_told_apart_by_their_type(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        metrics = running.broker.metrics
        await running.create_topic("Orders", 1)
        await end(running, "A", await half(running, "A"), COMMIT)
        await half(running, "B")
        await running.sent("Orders", properties="UNIQ_KEY\x01C\x02__SHARDINGKEY\x01k\x02")
        await running.sent("Orders", body=bytes(5_000), properties="UNIQ_KEY\x01D\x02")
        await running.sent("Orders", properties="UNIQ_KEY\x01E\x02DELAY\x011\x02")
        await until(lambda: ("Orders", "false", "delay") in metrics.read(messages.MESSAGES_IN.name))
        assert metrics.read(messages.MESSAGES_IN.name) == {
            ("RMQ_SYS_TRANS_HALF_TOPIC", "true", "transaction"): 2,
            ("RMQ_SYS_TRANS_OP_HALF_TOPIC", "true", "normal"): 1,
            ("Orders", "false", "transaction"): 1, ("Orders", "false", "fifo"): 1, ("Orders", "false", "normal"): 1,
            ("SCHEDULE_TOPIC_XXXX", "true", "delay"): 1, ("Orders", "false", "delay"): 1,
        }  # fmt: skip
        large = metrics.read(messages.SIZE.name)["Orders", "false", "normal"]
        assert isinstance(large, Histogram) and large.cumulative()[:3] == [(1024, 0), (4096, 0), (524288, 1)]
        assert metrics.read(messages.THROUGHPUT_IN.name)["Orders", "false", "normal"] == large.sum > 5_000

    on_broker(work, tmp_path)


def test_requests_are_measured_with_apaches_labels(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        await running.create_topic("Orders", 1)
        for _ in range(3):
            await running.sent("Orders")
        assert (await running.send("nowhere", default_topic="none")).code == ResponseCode.TOPIC_NOT_EXIST
        held = asyncio.ensure_future(running.pull("Orders", offset=3, sys_flag=6, suspend_timeout_millis=20_000))
        await until(lambda: len(running.broker.operations.consuming.pulls.held) == 1)
        await running.sent("Orders")
        await held
        found = {}
        for labels, latency in running.broker.metrics.read(RPC_LATENCY.name).items():
            assert isinstance(latency, Histogram) and 0 < latency.sum < 20_000 * len(latency.counts)
            named = dict(zip(RPC_LATENCY.labels, labels, strict=True))
            assert (named["protocol_type"], named["result"]) == ("remoting", "success")
            found[named["request_code"], named["response_code"], named["is_long_polling"]] = sum(latency.counts)
        assert found == {
            ("update_and_create_topic", "success", "false"): 1, ("send_message_v2", "success", "false"): 4,
            ("send_message_v2", "topic_not_exist", "false"): 1, ("pull_message", "success", "true"): 1,
        }  # fmt: skip

    on_broker(work, tmp_path)


def test_messages_are_measured_and_the_statistics_of_remoting_say_the_same(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        metrics = running.broker.metrics
        await running.create_topic("Orders", 1)
        for _ in range(3):
            await running.sent("Orders")
        await running.pull("Orders", commit_offset=1, sys_flag=5)
        assert metrics.read(messages.MESSAGES_IN.name) == {("Orders", "false", "normal"): 3}
        assert metrics.read(messages.MESSAGES_OUT.name) == {("Orders", "CG", "false", "false"): 3}
        assert metrics.total(messages.THROUGHPUT_OUT.name) == metrics.total(messages.THROUGHPUT_IN.name)
        assert metrics.total(messages.THROUGHPUT_IN.name) == metrics.total(storage.SIZE.name)
        assert metrics.read(lag.LAG.name) == {("Orders", "CG", "false", "false"): 2}
        assert metrics.total(storage.DISPATCH_BEHIND.name) == metrics.total(storage.FLUSH_BEHIND.name) == 0

        table = running.broker.operations.administration.figures.runtime_info()
        assert table["putMessageTimesTotal"] == table["msgPutTotalTodayNow"] == "3"
        assert table["putMessageSizeTotal"] == str(int(metrics.total(messages.THROUGHPUT_IN.name)))
        assert (table["dispatchBehindBytes"], table["remainHowManyDataToFlush"]) == ("0", "0 B")
        for name, key in ((TOPIC_PUT_NUMS, "Orders"), (BROKER_PUT_NUMS, "DefaultCluster")):
            header = StatsKey(stats_name=name, stats_key=key)
            answer = await running.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)
            assert b'"sum":3' in answer.body, name

    on_broker(work, tmp_path)


def test_what_is_parked_counts_after_a_restart_until_it_is_resumed(tmp_path: Path) -> None:
    """A counter begins at 0 in each process; what waits for a person is still there."""
    parked: list[int] = []

    async def first(running: Cluster) -> None:
        for key in ("A", "B", "C"):
            await half(running, key)
        coordinator = running.broker.coordinator
        for open_half in list(coordinator.table):
            coordinator.ends._endings.park(open_half, None, Cause.UNKNOWN_ANSWERS)
        await until(lambda: coordinator.parked.waiting() == 3)
        entry = running.broker.store.entry(PARKED, 0, 1)
        assert entry is not None
        header = ResumeCheck(msg_id=offset_message_id(pack_host(running.broker.address), entry.log_offset))
        assert (await running.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, header)).code == ResponseCode.SUCCESS
        parked.append(int(running.broker.metrics.total(transactions.PARKED.name)))

    async def second(running: Cluster) -> None:
        metrics = running.broker.metrics
        await until(lambda: metrics.total(transactions.PARKED.name) == parked[0])
        assert metrics.total("gantry_transaction_parked_total") == 0, "the counter is of this process"
        assert metrics.read(transactions.HALVES.name) == {("Orders",): 1}

    on_broker(first, tmp_path)
    assert parked == [2]
    on_broker(second, tmp_path)


def test_dead_letters_of_a_topic_begin_at_zero_and_count_whichever_way_they_came(tmp_path: Path) -> None:
    """A series that begins at 1 has no increase, so that nobody hears of the first dead letter."""

    async def work(running: Cluster) -> None:
        metrics = running.broker.metrics
        running.broker.groups.find("G")
        running.broker.offsets.commit("G", "Orders", 0, 0)
        assert metrics.read(messages.DEAD_LETTERS.name) == {("Orders", "G", "false"): 0}
        sent = await running.sent("Orders", b"x")
        header = SendBack(
            offset=parse_offset_message_id(sent.msg_id)[1], group="G", delay_level=-1, max_reconsume_times=16
        )
        assert (await running.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code == ResponseCode.SUCCESS
        assert metrics.read(messages.DEAD_LETTERS.name) == {("Orders", "G", "false"): 1}
        assert metrics.read(messages.STORED_DEAD_LETTERS.name)["G", "false"] == 1

        retry, own = {"reconsume_times": 2, "max_reconsume_times": 1}, "RETRY_TOPIC\x01Refunds\x02"
        assert (await running.send("%RETRY%G", b"x", own, **retry)).code == ResponseCode.SUCCESS
        assert metrics.read(messages.DEAD_LETTERS.name) == {("Orders", "G", "false"): 1, ("Refunds", "G", "false"): 1}
        assert metrics.read(messages.STORED_DEAD_LETTERS.name)["G", "false"] == 2

    async def later(running: Cluster) -> None:
        assert running.broker.metrics.read(messages.DEAD_LETTERS.name) == {("Orders", "G", "false"): 0}
        assert running.broker.metrics.read(messages.STORED_DEAD_LETTERS.name)["G", "false"] == 2

    on_broker(work, tmp_path)
    on_broker(later, tmp_path)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_what_an_alert_counts_is_there_before_it_happens(rule: dict[str, Any], tmp_path: Path) -> None:
    """For each ``increase`` of an alert: a new broker shows the series with 0, with every label value that it names."""

    async def work(running: Cluster) -> None:
        running.broker.offsets.commit("G", "Orders", 0, 0)
        metrics = running.broker.metrics
        for name in re.findall(r"increase\((\w+)", rule["expr"]):
            found = metrics.numbers(name)
            assert found and not any(found.values()), name

    on_broker(work, tmp_path)
