"""Metrics of POP of a running broker: what was written, what came back, and what is late."""

from __future__ import annotations

from pathlib import Path

from gantrymq.broker.metrics import lag
from gantrymq.broker.pop import metrics as pop_metrics
from gantrymq.broker.pop.check_point import Ack, CheckPoint
from gantrymq.broker.pop.ledger import PopCounts
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.pop import AckMessage, PopMessage, PopMessageAnswer
from tests.support.brokers import Cluster, on_broker, until


def wanted(count: int, invisible_ms: int) -> PopMessage:
    return PopMessage(
        consumer_group="CG", topic="Orders", queue_id=0, max_msg_nums=count, invisible_time=invisible_ms, poll_time=0,
        born_time=0, init_mode=0, exp_type="TAG", exp="*", order=False,
    )  # fmt: skip


def test_what_is_popped_acknowledged_and_comes_back_is_counted(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        metrics = running.broker.metrics
        await running.create_topic("Orders", 1)
        for _ in range(3):
            await running.sent("Orders")
        popped = (await running.ask(RequestCode.POP_MESSAGE, wanted(1, 60_000))).header(PopMessageAnswer)
        extra = f"0 {popped.pop_time} 60000 {popped.revive_qid} 0 broker-a 0 0"
        header = AckMessage(consumer_group="CG", topic="Orders", queue_id=0, extra_info=extra, offset=0)
        assert (await running.ask(RequestCode.ACK_MESSAGE, header)).code == ResponseCode.SUCCESS
        await running.ask(RequestCode.POP_MESSAGE, wanted(2, 1_000))
        await until(lambda: metrics.total(pop_metrics.RETURNED.name) == 2)
        assert metrics.read(pop_metrics.WRITTEN.name) == {
            ("CG", "Orders", "CK", "PUT_OK"): 2, ("CG", "Orders", "ACK", "PUT_OK"): 1,
        }  # fmt: skip
        revived = metrics.read(pop_metrics.REVIVED.name)
        assert [(labels[:2], labels[3], number) for labels, number in revived.items()] == [(("CG", "Orders"), "CK", 1)]
        assert metrics.read(pop_metrics.RETURNED.name) == {("CG", "Orders", "PUT_OK"): 2}
        assert metrics.total(pop_metrics.BEHIND.name) == metrics.total(pop_metrics.LATENCY.name) == 0
        assert metrics.read(lag.READY.name) == {
            ("Orders", "CG", "false", "false"): 0, ("Orders", "CG", "true", "false"): 2,
        }  # fmt: skip

    on_broker(work, tmp_path)


def test_messages_of_a_retry_topic_count_for_the_topic_and_failures_apart() -> None:
    counts = PopCounts()
    point = CheckPoint("%RETRY%CG_Orders", "CG", 0, 4, 1_000, 500, "broker-a", (0,))
    counts.put(point, stored=True)
    counts.put(Ack(point.key, (4,)), stored=False)
    assert counts.written == {("Orders", "CG", "CK", True): 1, ("Orders", "CG", "ACK", False): 1}
