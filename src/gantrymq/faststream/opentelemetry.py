"""FastStream's telemetry middleware for this broker: ``GantryBroker(middlewares=[GantryTelemetryMiddleware(...)])``.

The clients below make spans of their own once a tracer provider is set (docs/tracing.md). With both, the spans of a
message are in one trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faststream.opentelemetry import TelemetrySettingsProvider
from faststream.opentelemetry.consts import MESSAGING_DESTINATION_PUBLISH_NAME
from faststream.opentelemetry.middleware import TelemetryMiddleware

from gantrymq.faststream.message import messages_in

if TYPE_CHECKING:
    from faststream.message import StreamMessage
    from faststream.response import PublishCommand
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import TracerProvider


class GantryTelemetrySettings(TelemetrySettingsProvider[Any, Any]):
    """What spans say of a message, by OpenTelemetry's names."""

    def __init__(self) -> None:
        self.messaging_system = "rocketmq"

    def get_consume_attrs_from_message(self, msg: StreamMessage[Any]) -> dict[str, Any]:
        views = messages_in(msg.raw_message)
        attributes = {
            "messaging.system": self.messaging_system,
            "messaging.message.id": msg.message_id,
            "messaging.message.conversation_id": msg.correlation_id,
            "messaging.message.payload_size_bytes": sum(len(view.body) for view in views),
            MESSAGING_DESTINATION_PUBLISH_NAME: views[0].topic,
        }
        if len(views) > 1:
            attributes["messaging.batch.message_count"] = len(views)
        return attributes

    def get_consume_destination_name(self, msg: StreamMessage[Any]) -> str:
        return messages_in(msg.raw_message)[0].topic

    def get_publish_attrs_from_cmd(self, cmd: PublishCommand) -> dict[str, Any]:
        return {
            "messaging.system": self.messaging_system,
            "messaging.destination.name": cmd.destination,
            "messaging.message.conversation_id": cmd.correlation_id,
        }

    def get_publish_destination_name(self, cmd: PublishCommand) -> str:
        return cmd.destination


class GantryTelemetryMiddleware(TelemetryMiddleware[Any]):
    """Spans and meters around handlers and ``publish``."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        meter: Meter | None = None,
        include_messages_counters: bool = True,
    ) -> None:
        super().__init__(
            settings_provider_factory=lambda _: GantryTelemetrySettings(),
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            meter=meter,
            include_messages_counters=include_messages_counters,
        )
