"""Metrics of what clients take, and of what a server refused because of its limits: of brokers and name servers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Reading, single
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.refusals import Reason

CONNECTIONS: Final[Metric] = Metric(
    "gantry_connections", MetricKind.GAUGE, "connections", (), "Open connections of clients, on all ports."
)
BYTES: Final[Metric] = Metric(
    "gantry_bytes_in_flight", MetricKind.GAUGE, "bytes", (),
    "Bytes of incomplete requests and unread answers, of connections with more than 64 KiB of them.",
)  # fmt: skip
REFUSED: Final[Metric] = Metric(
    "gantry_connections_refused_total", MetricKind.COUNTER, "connections", (),
    "Connections that were refused because of maxConnections or maxConnectionsPerHost.",
)  # fmt: skip
CUT_OFF: Final[Metric] = Metric(
    "gantry_connections_cut_off_total", MetricKind.COUNTER, "connections", ("reason",),
    "Connections that the server ended: tls (no agreement on TLS), first_request (it did not come in time), "
    "slow_reader (answers were not read), bytes_in_flight (too much memory).",
)  # fmt: skip
REFUSED_REQUESTS: Final[Metric] = Metric(
    "gantry_requests_refused_total", MetricKind.COUNTER, "requests", (),
    "Requests that were refused because of maxRequestsPerSecond.",
)  # fmt: skip

_CUT_OFF: Final = (Reason.TLS, Reason.FIRST_REQUEST, Reason.SLOW_READER, Reason.BYTES)


def declare_limits(metrics: Metrics, client_limits: ClientLimits) -> None:
    """Declare the metrics of this module."""

    def cut_off() -> Iterable[Reading]:
        return [((reason.value,), client_limits.refused(reason)) for reason in _CUT_OFF]

    metrics.declare(CONNECTIONS, single(lambda: client_limits.connections.count))
    metrics.declare(BYTES, single(lambda: client_limits.bytes.total))
    metrics.declare(REFUSED, single(lambda: client_limits.refused(Reason.CONNECTIONS)))
    metrics.declare(CUT_OFF, cut_off)
    metrics.declare(REFUSED_REQUESTS, single(lambda: client_limits.refused(Reason.REQUESTS)))
