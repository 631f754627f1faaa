"""How long requests took: the metric that all protocols of a server share."""

from __future__ import annotations

from typing import Final

from gantrymq.observability.metrics import Metric, MetricKind

BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
"""Those of Apache's servers (RemotingMetricsManager)."""
RPC_LATENCY: Final[Metric] = Metric(
    "rocketmq_rpc_latency_milliseconds", MetricKind.HISTOGRAM, "milliseconds",
    ("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
    "Time from the arrival of a request to its answer. Codes have RocketMQ's names, others are unknown; result is "
    "success or oneway.",
    before="rocketmq_rpc_latency",
)  # fmt: skip
"""Source: RemotingMetricsConstant."""
ANSWERED: Final = "success"
ONE_WAY: Final = "oneway"


def text_of(held: bool) -> str:
    """The label ``is_long_polling``."""
    return "true" if held else "false"
