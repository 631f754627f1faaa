"""What a span says of a message, by its properties."""

from __future__ import annotations

import pytest

from gantrymq.client.tracing.attributes import of_message, type_of
from gantrymq.message import properties
from gantrymq.message.message import Message

TYPE = "messaging.rocketmq.message.type"
LEVEL = "messaging.rocketmq.message.delay_time_level"
AT = "messaging.rocketmq.message.delivery_timestamp"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message("T", "1"), {TYPE: "normal"}),
        (Message("T", "1", delay_level=3), {TYPE: "delay", LEVEL: 3}),
        (Message("T", "1", delay_ms=5), {TYPE: "delay", AT: 1_005}),
        (Message("T", "1", deliver_at_ms=2_000), {TYPE: "delay", AT: 2_000}),
        (Message("T", "1", tags="A", keys="k1 k2"), {TYPE: "normal", "messaging.rocketmq.message.tag": "A",
                                                    "messaging.rocketmq.message.keys": ["k1", "k2"]}),
        (Message("T", "1", unique_key="id-1"), {TYPE: "normal", "messaging.message.id": "id-1"}),
    ],
)  # fmt: skip
def test_a_message_is_described(message: Message, expected: dict[str, object]) -> None:
    assert of_message(message.properties, 1_000) == expected


def test_the_types() -> None:
    assert type_of({properties.SHARDING_KEY: "c"}) == "fifo"
    assert type_of({properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: "PG"}) == "transaction"
    assert type_of({properties.PRODUCER_GROUP: "PG"}) == "transaction", "what Apache's brokers leave of it"


def test_times_that_are_none_are_left_out() -> None:
    assert of_message({properties.DELAY: "x", properties.TIMER_DELIVER_MS: ""}, 0) == {TYPE: "delay"}
