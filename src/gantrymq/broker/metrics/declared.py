"""All metrics of a broker: the one list that HTTP, remoting's statistics and the tools read."""

from __future__ import annotations

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.clients import declare_clients
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.metrics.disk import declare_disk
from gantrymq.broker.metrics.lag import InvisibleOf, declare_lag
from gantrymq.broker.metrics.messages import declare_messages
from gantrymq.broker.metrics.storage import declare_storage
from gantrymq.broker.metrics.transactions import declare_transactions
from gantrymq.broker.registries.registries import Registries
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.observability.limits import declare_limits
from gantrymq.observability.metrics import Metrics
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.store.message_store import MessageStore


def metrics_of(
    config: LiveConfig,
    clock: Clock,
    store: MessageStore,
    registries: Registries,
    coordinator: TransactionCoordinator,
    counters: MessageCounters,
    client_limits: ClientLimits,
    invisible: InvisibleOf,
) -> Metrics:
    """Nothing is measured until somebody reads."""
    metrics = Metrics()
    declare_messages(metrics, store, registries, counters)
    declare_lag(metrics, store, registries, clock, invisible)
    declare_transactions(metrics, coordinator, registries.producers, clock)
    declare_clients(metrics, config, registries)
    declare_limits(metrics, client_limits)
    declare_storage(metrics, store, clock)
    declare_disk(metrics, store)
    return metrics


def common_labels(config: LiveConfig) -> dict[str, str]:
    """The labels that every metric has."""
    return {
        "cluster": config.identity.broker_cluster_name,
        "node_type": "broker",
        "node_id": config.identity.broker_name,
    }
