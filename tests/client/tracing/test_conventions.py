"""The names of attributes are those of the installed version of OpenTelemetry's semantic conventions."""

from __future__ import annotations

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes as messaging
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from gantrymq.client.tracing import attributes as ours

NAMES = {
    "SYSTEM": messaging.MESSAGING_SYSTEM,
    "OPERATION_NAME": messaging.MESSAGING_OPERATION_NAME,
    "OPERATION_TYPE": messaging.MESSAGING_OPERATION_TYPE,
    "DESTINATION": messaging.MESSAGING_DESTINATION_NAME,
    "MESSAGE_ID": messaging.MESSAGING_MESSAGE_ID,
    "BATCH_COUNT": messaging.MESSAGING_BATCH_MESSAGE_COUNT,
    "CLIENT_ID": messaging.MESSAGING_CLIENT_ID,
    "CONSUMER_GROUP": messaging.MESSAGING_CONSUMER_GROUP_NAME,
    "CONSUMPTION_MODEL": messaging.MESSAGING_ROCKETMQ_CONSUMPTION_MODEL,
    "NAMESPACE": messaging.MESSAGING_ROCKETMQ_NAMESPACE,
    "MESSAGE_TYPE": messaging.MESSAGING_ROCKETMQ_MESSAGE_TYPE,
    "MESSAGE_TAG": messaging.MESSAGING_ROCKETMQ_MESSAGE_TAG,
    "MESSAGE_KEYS": messaging.MESSAGING_ROCKETMQ_MESSAGE_KEYS,
    "MESSAGE_GROUP": messaging.MESSAGING_ROCKETMQ_MESSAGE_GROUP,
    "DELAY_LEVEL": messaging.MESSAGING_ROCKETMQ_MESSAGE_DELAY_TIME_LEVEL,
    "DELIVERY_TIME": messaging.MESSAGING_ROCKETMQ_MESSAGE_DELIVERY_TIMESTAMP,
    "SERVER_ADDRESS": server_attributes.SERVER_ADDRESS,
    "SERVER_PORT": server_attributes.SERVER_PORT,
    "ERROR_TYPE": error_attributes.ERROR_TYPE,
}
OUR_OWN = "gantrymq."
"""The conventions let everybody add attributes under a name of their own."""


@pytest.mark.parametrize("name", NAMES)
def test_an_attribute_has_its_name_of_the_conventions(name: str) -> None:
    assert getattr(ours, name) == NAMES[name]


def test_no_attribute_is_left_out_of_the_comparison() -> None:
    named = {
        name
        for name, value in vars(ours).items()
        if name.isupper() and isinstance(value, str) and "." in value and not value.startswith(OUR_OWN)
    }
    assert named == set(NAMES)


def test_values_that_the_conventions_list_are_theirs() -> None:
    assert messaging.MessagingSystemValues(ours.ROCKETMQ) is messaging.MessagingSystemValues.ROCKETMQ
    for values, expected in (
        ({}, messaging.MessagingRocketmqMessageTypeValues.NORMAL),
        ({"__SHARDINGKEY": "a"}, messaging.MessagingRocketmqMessageTypeValues.FIFO),
        ({"DELAY": "3"}, messaging.MessagingRocketmqMessageTypeValues.DELAY),
        ({"TRAN_MSG": "true"}, messaging.MessagingRocketmqMessageTypeValues.TRANSACTION),
    ):
        assert ours.type_of(values) == expected.value
