"""Metrics of the disk: how full it is, what is kept for decisions, and what is refused because of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Reading, single
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import Use

_BY_DIRECTORY: Final = ("directory",)

CAPACITY: Final[Metric] = Metric(
    "gantry_disk_capacity_bytes", MetricKind.GAUGE, "bytes", _BY_DIRECTORY,
    "Size of the file system of a directory: log (storePathCommitLog) and store (storePathRootDir).",
)  # fmt: skip
FREE: Final[Metric] = Metric(
    "gantry_disk_free_bytes", MetricKind.GAUGE, "bytes", _BY_DIRECTORY,
    "What a program without privileges can still write there. The reserve does not count as free.",
)  # fmt: skip
RATIO: Final[Metric] = Metric(
    "gantry_disk_used_ratio", MetricKind.GAUGE, "", _BY_DIRECTORY,
    "Used share of the file system, from 0 to 1, as df shows it.",
)  # fmt: skip
LIMIT: Final[Metric] = Metric(
    "gantry_disk_limit_ratio",
    MetricKind.GAUGE,
    "",
    (),
    "Above this share of a file system messages are refused: diskSpaceWarningLevelRatio.",
)
RESERVE: Final[Metric] = Metric(
    "gantry_disk_reserve_bytes", MetricKind.GAUGE, "bytes", (),
    "Size of the reserve for decisions, offsets and settings. It is smaller than diskSpaceReserve when it was used.",
)  # fmt: skip
RESERVE_WANTED: Final[Metric] = Metric(
    "gantry_disk_reserve_wanted_bytes", MetricKind.GAUGE, "bytes", (),
    "Size that the reserve has when the disk has room: diskSpaceReserve, but at most a sixteenth of the file system.",
)  # fmt: skip
RESERVE_USED: Final[Metric] = Metric(
    "gantry_disk_reserve_used_bytes_total", MetricKind.COUNTER, "bytes", (),
    "What was given back of the reserve because the disk was full.",
)  # fmt: skip
REFUSING: Final[Metric] = Metric(
    "gantry_writes_stopped", MetricKind.GAUGE, "", ("use",),
    "Whether writes for a use are refused (1): message (sends), copy (delayed messages that are due, retries), "
    "decision (commits; rollbacks are refused only when the log takes nothing any more).",
)  # fmt: skip
REFUSED: Final[Metric] = Metric(
    "gantry_writes_refused_total", MetricKind.COUNTER, "requests", ("use", "reason"),
    "Writes that were refused: ratio (diskSpaceWarningLevelRatio), reserve (no room beside the reserve), full (the "
    "file system took no more), waiting (too many bytes wait for the disk), failed (a write or a sync failed for "
    "good).",
)  # fmt: skip


def declare_disk(metrics: Metrics, store: MessageStore) -> None:
    """Declare the metrics of this module."""
    room, space = store.room, store.space

    def usages() -> Iterable[tuple[tuple[str, ...], tuple[int, int, float]]]:
        for name, usage in (("log", space.of_log()), ("store", space.of_queues())):
            yield (name,), (usage.total, usage.free, usage.fullness)

    def refusing() -> Iterable[Reading]:
        stopped = store.stopped is not None
        return [((use.name.lower(),), int(stopped or room.level >= use)) for use in Use]

    metrics.declare_table((CAPACITY, FREE, RATIO), usages)
    metrics.declare(LIMIT, single(lambda: room.limit))
    metrics.declare(RESERVE, single(lambda: room.reserve.size))
    metrics.declare(RESERVE_WANTED, single(lambda: room.reserve.base))
    metrics.declare(RESERVE_USED, single(lambda: room.reserve.given_back))
    metrics.declare(REFUSING, refusing)
    metrics.declare(REFUSED, lambda: list(room.refused.items()))
