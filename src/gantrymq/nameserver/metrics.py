"""What a name server measures. Nothing is measured for this until somebody reads, except the requests."""

from __future__ import annotations

from typing import Final

from gantrymq.nameserver.route_table import Removed, RouteTable
from gantrymq.observability.limits import declare_limits
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, single
from gantrymq.observability.rpc_latency import RPC_LATENCY
from gantrymq.remoting.latency import RequestLatency
from gantrymq.runtime.limits.client_limits import ClientLimits

BROKERS: Final[Metric] = Metric(
    "gantry_nameserver_brokers", MetricKind.GAUGE, "brokers", ("cluster",), "Processes of brokers that are registered."
)
TOPICS: Final[Metric] = Metric(
    "gantry_nameserver_topics",
    MetricKind.GAUGE,
    "topics",
    (),
    "Topics that a registered broker has, with the system's.",
)
REGISTERED: Final[Metric] = Metric(
    "gantry_nameserver_registrations_total", MetricKind.COUNTER, "registrations", ("new",),
    "Registrations that were accepted; new is true for a broker that was not known before.",
)  # fmt: skip
REMOVED: Final[Metric] = Metric(
    "gantry_nameserver_brokers_removed_total", MetricKind.COUNTER, "brokers", ("reason",),
    "Brokers that were removed: unregistered (they stopped), lost (the connection ended), silent (they sent nothing).",
)  # fmt: skip


def metrics_of(routes: RouteTable, limits: ClientLimits, requests: RequestLatency) -> Metrics:
    """All metrics of one name server."""
    metrics = Metrics()
    metrics.declare(BROKERS, lambda: [((cluster,), count) for cluster, count in routes.brokers_by_cluster().items()])
    metrics.declare(TOPICS, single(lambda: len(routes.topics())))
    metrics.declare(
        REGISTERED, lambda: [(("true",), routes.registered_new), (("false",), routes.registered_again)]
    )  # fmt: skip
    metrics.declare(REMOVED, lambda: [((reason.value,), routes.removed[reason]) for reason in Removed])
    declare_limits(metrics, limits)
    metrics.declare(RPC_LATENCY, requests.read)
    return metrics


def common_labels(address: str) -> dict[str, str]:
    """The labels that every metric has. ``address``: where the name server listens."""
    return {"node_type": "nameserver", "node_id": address}
