"""How long calls of gRPC took, and how they ended."""

from __future__ import annotations

import re
from typing import Final

from gantrymq.grpc.definition_pb2 import Code
from gantrymq.observability.metrics import Histogram, Metric, MetricKind, Reading
from gantrymq.observability.rpc_latency import ANSWERED, BOUNDS_MS, text_of
from gantrymq.runtime.clock import Clock

GRPC: Final = "grpc"
HELD: Final = frozenset({"ReceiveMessage"})
"""Methods that wait until there is a message."""
PROXY_UP: Final[Metric] = Metric(
    "rocketmq_proxy_up", MetricKind.GAUGE, "", ("proxy_mode",),
    "1 while clients of RocketMQ 5 are served (gRPC). proxy_mode is local when the broker serves them itself, and "
    "cluster when a proxy does.",
)  # fmt: skip
"""Source: ProxyMetricsConstant."""
LOCAL: Final = "local"
CLUSTER: Final = "cluster"


class GrpcLatency:
    """Measures the calls of one door. Streams of commands are not measured: they last as long as their clients."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured: dict[tuple[str, int], Histogram] = {}
        """By method and code of the answer."""

    def began(self) -> float:
        """What ``answered`` needs."""
        return self._clock.monotonic()

    def answered(self, method: str, code: int, began: float) -> None:
        histogram = self._measured.get((method, code))
        if histogram is None:
            histogram = self._measured[method, code] = Histogram(BOUNDS_MS)
        histogram.observe((self._clock.monotonic() - began) * 1000)

    def read(self) -> list[Reading]:
        """For ``RPC_LATENCY``."""
        return [
            ((GRPC, _words(method), Code.Name(code).lower(), text_of(method in HELD), ANSWERED), histogram)
            for (method, code), histogram in self._measured.items()
        ]


def _words(method: str) -> str:
    """``SendMessage`` as ``send_message``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower()
