"""What a span says of a message, in the names of OpenTelemetry's semantic conventions for messaging and for RocketMQ
(status: development; the names of 2026). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.message import properties

SYSTEM: Final = "messaging.system"
ROCKETMQ: Final = "rocketmq"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
CLIENT_ID: Final = "messaging.client.id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
CONSUMPTION_MODEL: Final = "messaging.rocketmq.consumption_model"
NAMESPACE: Final = "messaging.rocketmq.namespace"
MESSAGE_TYPE: Final = "messaging.rocketmq.message.type"
MESSAGE_TAG: Final = "messaging.rocketmq.message.tag"
MESSAGE_KEYS: Final = "messaging.rocketmq.message.keys"
MESSAGE_GROUP: Final = "messaging.rocketmq.message.group"
DELAY_LEVEL: Final = "messaging.rocketmq.message.delay_time_level"
DELIVERY_TIME: Final = "messaging.rocketmq.message.delivery_timestamp"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

PRODUCER_GROUP: Final = "gantrymq.producer.group"
"""The conventions have no name for it any more."""
TRANSACTION_ID: Final = "gantrymq.transaction.id"
TRANSACTION_STATE: Final = "gantrymq.transaction.state"
"""COMMIT, ROLLBACK or UNKNOWN."""
RECONSUME_TIMES: Final = "gantrymq.message.reconsume_times"

_OF_TRANSACTIONS: Final = frozenset({properties.TRANSACTION_PREPARED, properties.PRODUCER_GROUP})
"""A half message has both. Apache's brokers leave only the group when it is committed."""

Value = str | int | bool | list[str]


def of_message(values: Mapping[str, str], now_ms: int) -> dict[str, Value]:
    """The attributes that the properties of a message give. ``now_ms``: the wall time of its sending."""
    found: dict[str, Value] = {MESSAGE_TYPE: type_of(values)}
    if properties.UNIQ_KEY in values:
        found[MESSAGE_ID] = values[properties.UNIQ_KEY]
    if properties.TAGS in values:
        found[MESSAGE_TAG] = values[properties.TAGS]
    if keys := values.get(properties.KEYS, "").split():
        found[MESSAGE_KEYS] = keys
    if properties.SHARDING_KEY in values:
        found[MESSAGE_GROUP] = values[properties.SHARDING_KEY]
    delivery_ms = _delivery_ms(values, now_ms)
    if delivery_ms is not None:
        found[DELIVERY_TIME] = delivery_ms
    elif values.get(properties.DELAY, "").isdecimal():
        found[DELAY_LEVEL] = int(values[properties.DELAY])
    return found


def type_of(values: Mapping[str, str]) -> str:
    """``transaction``, ``delay``, ``fifo``, ``priority``, ``lite`` or ``normal``."""
    if not values.keys().isdisjoint(_OF_TRANSACTIONS):
        return "transaction"
    if not values.keys().isdisjoint(properties.DELAYS):
        return "delay"
    if properties.SHARDING_KEY in values:
        return "fifo"
    if properties.PRIORITY in values:
        return "priority"
    return "lite" if properties.LITE_TOPIC in values else "normal"


def _delivery_ms(values: Mapping[str, str], now_ms: int) -> int | None:
    for name, start_ms, unit_ms in (
        (properties.TIMER_DELIVER_MS, 0, 1),
        (properties.TIMER_DELAY_MS, now_ms, 1),
        (properties.TIMER_DELAY_SECONDS, now_ms, 1000),
    ):
        if values.get(name, "").isdecimal():
            return start_ms + unit_ms * int(values[name])
    return None
