"""Metrics of the log."""

from __future__ import annotations

from typing import Final

from gantrymq.observability.metrics import Kind, Metric, Metrics, single
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

SIZE: Final[Metric] = Metric(
    "rocketmq_storage_size", Kind.GAUGE, "bytes", (), "Size of the messages in the log that still exist."
)
FLUSH_BEHIND: Final[Metric] = Metric(
    "rocketmq_storage_flush_behind_bytes", Kind.GAUGE, "bytes", (), "What is written to the log and not yet synced."
)
DISPATCH_BEHIND: Final[Metric] = Metric(
    "rocketmq_storage_dispatch_behind_bytes", Kind.GAUGE, "bytes", (),
    "What is appended to the log and not yet visible to consumers.",
)  # fmt: skip
RESERVE_TIME: Final[Metric] = Metric(
    "rocketmq_storage_message_reserve_time", Kind.GAUGE, "milliseconds", (),
    "Age of the oldest message in the log; 0 when the log is empty.",
)  # fmt: skip


def declare_storage(metrics: Metrics, store: MessageStore, clock: Clock) -> None:
    """Declare the metrics of this module."""

    def reserve_time() -> int:
        earliest = store.earliest_store_time()
        return max(0, clock.wall_ms() - earliest) if earliest >= 0 else 0

    metrics.declare(SIZE, single(lambda: store.appended - store.min_log_offset))
    metrics.declare(FLUSH_BEHIND, single(lambda: max(0, store.written - store.flushed)))
    metrics.declare(DISPATCH_BEHIND, single(lambda: store.appended - store.max_log_offset))
    metrics.declare(RESERVE_TIME, single(reserve_time))
