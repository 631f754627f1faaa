"""Runtime figures of a broker. Source: AdminBrokerProcessor.prepareRuntimeInfo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gantrymq import __version__
from gantrymq.broker.delivery.delay import DelayedDelivery
from gantrymq.broker.metrics import messages, storage
from gantrymq.broker.metrics.transactions import HALVES
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.upkeep.statistics import BROKER_GET_NUMS, BROKER_PUT_NUMS, FOUND, MISSED, Statistics
from gantrymq.errors import StoreError
from gantrymq.message import system_topics
from gantrymq.message.replication import ReplicationState
from gantrymq.message.stats import BrokerStatsData
from gantrymq.observability.metrics import Metric, Metrics
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

_QUEUES: Final = {"send": 10_000, "pull": 100_000, "litePull": 100_000, "ack": 100_000, "query": 20_000}
"""Apache's thread pools with the capacity of their queues. We execute every request when it comes: nothing queues."""
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60


class Figures:
    """What the tools show of a broker.

    Keys of Apache's answer that would be figures of its own machinery, or that we do not measure (times of single
    writes and reads), are left out: the tools show those that are there.
    """

    def __init__(
        self,
        store: MessageStore,
        delay: DelayedDelivery,
        metrics: Metrics,
        statistics: Statistics,
        clock: Clock,
        protocol_version: int,
        replication: Callable[[], ReplicationState],
    ) -> None:
        """``protocol_version``: the number of the RocketMQ version that this broker is like."""
        self._replication = replication
        self._protocol_version = protocol_version
        self._store = store
        self._delay = delay
        self._metrics = metrics
        self._statistics = statistics
        self._clock = clock
        self._boot_ms = clock.wall_ms()

    @property
    def refusal(self) -> StoreError | None:
        """Why no message is taken; None: messages are taken."""
        return self._store.refusal

    @property
    def undecided(self) -> int:
        """Half messages that are not ended."""
        return int(self._metrics.total(HALVES.name))

    def replication(self) -> ReplicationState:
        """How far the copies of the log are."""
        return self._replication()

    def runtime_info(self) -> dict[str, str]:
        """What the tools show of a broker, by RocketMQ's keys."""
        table = self._identity() | self._rates() | self._store_figures() | self._delays()
        for name, capacity in _QUEUES.items():
            table[f"{name}ThreadPoolQueueSize"] = "0"
            table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        table["EndTransactionQueueSize"] = "0"
        table["EndTransactionThreadPoolQueueCapacity"] = "100000"
        return table

    def _identity(self) -> dict[str, str]:
        seconds = (self._clock.wall_ms() - self._boot_ms) // 1000
        days, hours = seconds // _DAY_S, seconds % _DAY_S // _HOUR_S
        minutes, rest = seconds % _HOUR_S // _MINUTE_S, seconds % _MINUTE_S
        return {
            "brokerVersionDesc": f"GantryMQ {__version__}",
            "brokerVersion": str(self._protocol_version),
            "brokerActive": "true",
            "bootTimestamp": str(self._boot_ms),
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {rest} seconds ]",
            "startAcceptSendRequestTimeStamp": "0",
        }

    def _rates(self) -> dict[str, str]:
        """Per second, and totals of the days."""
        statistics = self._statistics
        transferred = statistics.broker_rates(BROKER_GET_NUMS)
        found, missed = statistics.broker_rates(FOUND), statistics.broker_rates(MISSED)
        together = (float(one) + float(other) for one, other in zip(found.split(), missed.split(), strict=True))
        put, got = statistics.totals()
        return {
            "putTps": statistics.broker_rates(BROKER_PUT_NUMS),
            "getFoundTps": found,
            "getMissTps": missed,
            "getTotalTps": " ".join(str(rate) for rate in together),
            "getTransferredTps": transferred,
            "getTransferedTps": transferred,
            "msgPutTotalTodayNow": str(put),
            "msgPutTotalTodayMorning": str(statistics.morning[0]),
            "msgPutTotalYesterdayMorning": str(statistics.morning_before[0]),
            "msgGetTotalTodayNow": str(got),
            "msgGetTotalTodayMorning": str(statistics.morning[1]),
            "msgGetTotalYesterdayMorning": str(statistics.morning_before[1]),
        }

    def _store_figures(self) -> dict[str, str]:
        store = self._store
        stored, size = self._total(messages.MESSAGES_IN), self._total(messages.THROUGHPUT_IN)
        table = {
            "earliestMessageTimeStamp": str(store.earliest_store_time()),
            "putMessageTimesTotal": str(stored),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": str(size / stored if stored else 0.0),
            "commitLogMinOffset": str(store.min_log_offset),
            "commitLogMaxOffset": str(store.max_log_offset),
            "dispatchBehindBytes": str(self._total(storage.DISPATCH_BEHIND)),
            "dispatchMaxBuffer": "0",
            "remainHowManyDataToFlush": _readable(self._total(storage.FLUSH_BEHIND)),
            "pageCacheLockTimeMills": "0",
            "timerReadBehind": "0",
            "timerOffsetBehind": "0",
            "timerCongestNum": "0",
            "timerEnqueueTps": "0.0",
            "timerDequeueTps": "0.0",
        }
        return table | self._disk_figures()

    def _total(self, metric: Metric) -> int:
        return int(self._metrics.total(metric.name))

    def _disk_figures(self) -> dict[str, str]:
        path = self._store.log_path
        usage = self._store.space.of_log()
        ratio = str(round(usage.fullness, 2))
        room, refusal = self._store.room, self._store.refusal
        return {
            "writesRefused": "" if refusal is None else str(refusal),
            "diskReserve": f"{_readable(room.reserve.size)} of {_readable(room.reserve.base)}",
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{path}": ratio,
            "consumeQueueDiskRatio": str(round(self._store.space.of_queues().fullness, 2)),
            "commitLogDirCapacity": f"Total : {_readable(usage.total)}, Free : {_readable(usage.free)}.",
        }

    def _delays(self) -> dict[str, str]:
        """How far each delay level is that ever got a message: delivered, stored."""
        found: dict[str, str] = {}
        for level, delivered in sorted(self._delay.delivered().items()):
            end = self._store.queue_range(system_topics.SCHEDULE, level - 1)[1]
            found[f"scheduleMessageOffset_{level}"] = f"{delivered},{end}"
        return found

    def delay_offsets(self) -> dict[str, Any]:
        """How far each delay level is, as ``delayOffset.json`` has it."""
        return self._delay.content()

    def statistic(self, name: str, key: str) -> BrokerStatsData:
        """A statistic over a minute, an hour and a day."""
        found = self._statistics.view(name, key)
        if found is None:
            raise Refused(Refusal.FAILED, f"The stats <{name}> <{key}> not exist")
        return found


def _readable(size: int) -> str:
    """Bytes as Apache's broker writes them: ``252.0 GiB``, ``0 B``."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    units = iter(("KiB", "MiB", "GiB", "TiB", "PiB"))
    while value >= 1024:
        value, unit = value / 1024, next(units)
    return f"{value:.1f} {unit}"
