"""Metrics of the log."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.metrics.labels import STORAGE, STORAGE_LABELS
from gantrymq.observability.metrics import Metric, MetricKind, Metrics
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

SIZE: Final[Metric] = Metric(
    "rocketmq_storage_size_bytes", MetricKind.GAUGE, "bytes", STORAGE_LABELS,
    "Size of the messages in the log that still exist.", before="rocketmq_storage_size",
)  # fmt: skip
FLUSH_BEHIND: Final[Metric] = Metric(
    "rocketmq_storage_flush_behind_bytes", MetricKind.GAUGE, "bytes", STORAGE_LABELS,
    "What is written to the log and not yet synced.",
)  # fmt: skip
DISPATCH_BEHIND: Final[Metric] = Metric(
    "rocketmq_storage_dispatch_behind_bytes", MetricKind.GAUGE, "bytes", STORAGE_LABELS,
    "What is appended to the log and not yet visible to consumers.",
)  # fmt: skip
RESERVE_TIME: Final[Metric] = Metric(
    "rocketmq_storage_message_reserve_time_milliseconds", MetricKind.GAUGE, "milliseconds", STORAGE_LABELS,
    "Age of the oldest message in the log; 0 when the log is empty.",
    before="rocketmq_storage_message_reserve_time",
)  # fmt: skip


def declare_storage(metrics: Metrics, store: MessageStore, clock: Clock) -> None:
    """Declare the metrics of this module."""

    def reserve_time() -> int:
        earliest = store.earliest_store_time()
        return max(0, clock.wall_ms() - earliest) if earliest >= 0 else 0

    metrics.declare_table(
        (SIZE, FLUSH_BEHIND, DISPATCH_BEHIND, RESERVE_TIME),
        lambda: (
            (
                STORAGE,
                (
                    store.appended - store.min_log_offset, max(0, store.written - store.flushed),
                    store.appended - store.max_log_offset, reserve_time(),
                ),
            ),
        ),
    )  # fmt: skip
