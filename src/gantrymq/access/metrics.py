"""Metrics of what users were refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.access.counts import Refusals
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Reading

REFUSED_REQUESTS: Final[Metric] = Metric(
    "gantry_permission_refusals_total", MetricKind.COUNTER, "requests", ("reason",),
    "Requests that were refused because nobody knows who sent them (unauthenticated), because the user may not make "
    "them (forbidden), or because of too many wrong passwords before (guessed).",
)  # fmt: skip


def declare_access(metrics: Metrics, refusals: Refusals) -> None:
    """Declare the metrics of this module."""
    metrics.declare(REFUSED_REQUESTS, lambda: _refused(refusals))


def _refused(refusals: Refusals) -> Iterable[Reading]:
    return [
        (("unauthenticated",), refusals.unauthenticated),
        (("forbidden",), refusals.forbidden),
        (("guessed",), refusals.guessed),
    ]
