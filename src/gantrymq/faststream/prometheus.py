"""FastStream's Prometheus middleware for this broker: ``GantryBroker(middlewares=[GantryPrometheusMiddleware(...)])``.

What the clients below count is in ``gantrymq.metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from faststream._internal.constants import EMPTY
from faststream.prometheus import ConsumeAttrs, MetricsSettingsProvider
from faststream.prometheus.middleware import PrometheusMiddleware

from gantrymq.faststream.message import messages_in

if TYPE_CHECKING:
    from faststream.message import StreamMessage
    from faststream.response import PublishCommand
    from prometheus_client import CollectorRegistry


class GantryMetricsSettings(MetricsSettingsProvider[Any, Any]):
    """What the metrics say of a message."""

    def __init__(self) -> None:
        self.messaging_system = "rocketmq"

    def get_consume_attrs_from_message(self, msg: StreamMessage[Any]) -> ConsumeAttrs:
        views = messages_in(msg.raw_message)
        return {
            "destination_name": views[0].topic,
            "message_size": sum(len(view.body) for view in views),
            "messages_count": len(views),
        }

    def get_publish_destination_name_from_cmd(self, cmd: PublishCommand) -> str:
        return cmd.destination


class GantryPrometheusMiddleware(PrometheusMiddleware[Any, Any]):
    """Counts messages received, processed and published, and measures how long that took."""

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        app_name: str = EMPTY,
        metrics_prefix: str = "faststream",
        received_messages_size_buckets: Sequence[float] | None = None,
        custom_labels: dict[str, str | Callable[[Any], str]] | None = None,
    ) -> None:
        super().__init__(
            settings_provider_factory=lambda _: GantryMetricsSettings(),
            registry=registry,
            app_name=app_name,
            metrics_prefix=metrics_prefix,
            received_messages_size_buckets=received_messages_size_buckets,
            custom_labels=custom_labels,
        )
