from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import MessageIllegal
from gantrymq.spark.pipelines.ready_made.order_event import OrderPaid

events = st.builds(OrderPaid, st.text(), st.text(), st.integers(0, 2**53), st.integers(0, 2**53))


@given(events)
def test_events_survive_their_body(event: OrderPaid) -> None:
    assert OrderPaid.from_body(event.to_body()) == event


def test_the_body_is_the_documented_json() -> None:
    event = OrderPaid("o-1", "u-7", 1999, 1_767_225_600_000)
    assert json.loads(event.to_body()) == {
        "order_id": "o-1", "user_id": "u-7", "amount_cents": 1999, "paid_at_ms": 1_767_225_600_000,
    }  # fmt: skip
    assert event.points == 19
    message = event.message("orders-paid")
    assert (message.topic, message.keys, message.tags) == ("orders-paid", ["o-1"], "order-paid")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"order_id": 5}', b"\xff"])
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(MessageIllegal, match="not an order-paid event"):
        OrderPaid.from_body(body)
