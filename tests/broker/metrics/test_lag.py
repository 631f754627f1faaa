"""How far groups are behind, in messages and in time: by pulls, by pops, and of groups that stand still."""

from __future__ import annotations

from pathlib import Path

from gantrymq.broker.metrics import lag
from gantrymq.broker.metrics.lag import Invisible
from gantrymq.broker.pop.check_point import CheckPoint
from gantrymq.broker.pop.ledger import Ledger, invisible
from gantrymq.observability.metrics import Metrics
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.pop import AckMessage, PopMessage, PopMessageAnswer
from tests.support.brokers import Cluster, on_broker, until

COLUMNS = (lag.LAG, lag.READY, lag.IN_FLIGHT, lag.LAG_LATENCY, lag.QUEUEING_LATENCY)


def row(metrics: Metrics, *labels: str) -> list[object]:
    """Lag, ready, in flight, and whether each of the two ages is above 0."""
    found = [metrics.read(metric.name)[labels] for metric in COLUMNS]
    assert all(isinstance(value, int) and value >= 0 for value in found)
    return [*found[:3], *(value != 0 for value in found[3:])]


def test_what_was_pulled_and_not_committed_is_in_flight(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        metrics = running.broker.metrics
        await running.create_topic("Orders", 1)
        for _ in range(5):
            await running.sent("Orders")
        await running.pull("Orders", commit_offset=1, sys_flag=5, offset=3)
        await until(lambda: metrics.total(lag.QUEUEING_LATENCY.name) > 0)  # the next millisecond
        assert row(metrics, "Orders", "CG", "false", "false") == [4, 2, 2, True, True]
        await running.pull("Orders", commit_offset=3, sys_flag=5, offset=5)
        assert row(metrics, "Orders", "CG", "false", "false") == [2, 0, 2, True, False]
        await running.pull("Orders", commit_offset=5, sys_flag=5, offset=5)
        assert row(metrics, "Orders", "CG", "false", "false") == [0, 0, 0, False, False]

    on_broker(work, tmp_path)


def test_what_was_popped_is_in_flight_until_it_is_acknowledged(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        metrics = running.broker.metrics
        await running.create_topic("Orders", 1)
        for _ in range(4):
            await running.sent("Orders")
        popped = await running.ask(
            RequestCode.POP_MESSAGE,
            PopMessage(
                consumer_group="CG", topic="Orders", queue_id=0, max_msg_nums=3, invisible_time=60_000, poll_time=0,
                born_time=0, init_mode=0, exp_type="TAG", exp="*", order=False,
            ),
        )  # fmt: skip
        assert popped.code == ResponseCode.SUCCESS
        await until(lambda: metrics.total(lag.LAG_LATENCY.name) > 0)
        assert row(metrics, "Orders", "CG", "false", "false")[:3] == [4, 1, 3]
        handle = popped.header(PopMessageAnswer)
        for offset in (0, 1, 2):
            extra = f"0 {handle.pop_time} 60000 {handle.revive_qid} 0 broker-a 0 {offset}"
            header = AckMessage(consumer_group="CG", topic="Orders", queue_id=0, extra_info=extra, offset=offset)
            assert (await running.ask(RequestCode.ACK_MESSAGE, header)).code == ResponseCode.SUCCESS
        assert row(metrics, "Orders", "CG", "false", "false")[:3] == [1, 1, 0]

    on_broker(work, tmp_path)


def test_invisible_messages_are_those_of_open_check_points() -> None:
    ledger = Ledger()
    ledger.open(0, 0, CheckPoint("Orders", "CG", 0, 4, 1_000, 500, "broker-a", (0, 1, 3)))
    ledger.open(0, 1, CheckPoint("Orders", "CG", 0, 9, 1_000, 500, "broker-a", (0,)))
    second = ledger.open(0, 2, CheckPoint("Orders", "CG", 1, 2, 1_000, 500, "broker-a", (0,)))
    assert invisible(ledger) == {("Orders", "CG", 0): Invisible(4, 4), ("Orders", "CG", 1): Invisible(1, 2)}
    ledger.forget(second)
    assert invisible(ledger) == {("Orders", "CG", 0): Invisible(4, 4)}
