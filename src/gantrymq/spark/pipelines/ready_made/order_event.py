"""The body of an order-paid message, which the order service sends and the pipelines read. Imports nothing of Spark.

An order service sends it inside the transaction that marks the order as paid::

    event = OrderPaid(order_id="o-1", user_id="u-7", amount_cents=1999, paid_at_ms=1767225600000)
    producer.send_in_transaction(event.message("orders-paid"), arg=event.order_id)
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gantrymq.errors import MessageIllegal
from gantrymq.message.message import Message

TAG = "order-paid"
CENTS_PER_POINT = 100
"""A customer earns one point for every whole unit of currency paid."""


@dataclass(frozen=True, slots=True)
class OrderPaid:
    """One order was paid. The JSON object has exactly these fields."""

    order_id: str
    """Unique among all orders. It is also the key of the message, and the pipelines recognise duplicates by it."""
    user_id: str
    amount_cents: int
    paid_at_ms: int
    """Milliseconds since 1970 UTC, by the clock of the order service."""

    def to_body(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_body(cls, body: bytes) -> OrderPaid:
        """Read a body. Raises MessageIllegal when it is not such an object."""
        try:
            return msgspec.json.decode(body, type=cls)
        except msgspec.DecodeError as error:
            raise MessageIllegal(f"the body is not an order-paid event: {error}") from error

    def message(self, topic: str) -> Message:
        """This event as a message, with the order id as its key."""
        return Message(topic, self.to_body(), tags=TAG, keys=self.order_id)

    @property
    def points(self) -> int:
        return self.amount_cents // CENTS_PER_POINT
