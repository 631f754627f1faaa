"""What the AsyncAPI page says of subscribers and publishers."""

from __future__ import annotations

from faststream._internal.endpoint.publisher import PublisherSpecification
from faststream._internal.endpoint.subscriber import SubscriberSpecification
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec, SubscriberSpec

from gantrymq.faststream.config import (
    GantryBrokerConfig,
    GantryPublisherSpecificationConfig,
    GantrySubscriberSpecificationConfig,
)


class GantrySubscriberSpecification(SubscriberSpecification[GantryBrokerConfig, GantrySubscriberSpecificationConfig]):
    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def channel_labels(self) -> list[str]:
        return [self.topic]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        message = Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads()))
        words = [self.description, f"Consumer group: {self.config.group}" if self.config.group else None]
        return {
            self.name: SubscriberSpec(
                address=self.topic,
                description="\n\n".join(word for word in words if word) or None,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }


class GantryPublisherSpecification(PublisherSpecification[GantryBrokerConfig, GantryPublisherSpecificationConfig]):
    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=Operation(message=Message(title=f"{self.name}:Message", payload=payload), bindings=None),
                bindings=None,
            )
        }
