"""Who calls, and what an error becomes."""

from __future__ import annotations

import pytest

from gantrymq.broker.grpc.calls import credentials, failed
from gantrymq.broker.grpc.statuses import CODES, OF_STORED, Rejected, ok, status_of, together
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.message.send_status import SendStatus


def test_each_refusal_and_each_way_to_store_has_a_code() -> None:
    assert set(CODES) == set(Refusal)
    assert set(OF_STORED) == set(SendStatus)


def test_only_what_nobody_expected_is_an_internal_server_error(caplog: pytest.LogCaptureFixture) -> None:
    assert failed(ZeroDivisionError()).code == Code.INTERNAL_SERVER_ERROR
    assert "ZeroDivisionError" in caplog.text
    wrong = {Refusal.MESSAGE_ILLEGAL, Refusal.PARAMETER_INVALID, Refusal.SELECTOR_INVALID, Refusal.TOPIC_UNKNOWN}
    assert all(40_000 <= CODES[refusal] < 50_000 for refusal in wrong)
    assert [refusal for refusal, code in CODES.items() if code == Code.INTERNAL_SERVER_ERROR] == [Refusal.FAILED]


def test_a_code_of_the_protocol_says_more_than_a_refusal() -> None:
    assert status_of(Rejected(Code.ILLEGAL_TOPIC, "why")).code == Code.ILLEGAL_TOPIC
    assert status_of(Refused(Refusal.BUSY, "later")).code == Code.TOO_MANY_REQUESTS


def test_equal_results_are_one_and_different_ones_are_told_apart() -> None:
    assert together([ok(), ok()]).code == Code.OK
    assert together([ok(), status_of(Refused(Refusal.BUSY, ""))]).code == Code.MULTIPLE_RESULTS


@pytest.mark.parametrize(
    ("header", "name", "signature"),
    [
        ("MQv2-HMAC-SHA1 Credential=app, SignedHeaders=x-mq-date-time, Signature=00FF", "app", "AP8="),
        ("MQv2-HMAC-SHA1 Credential=app//Rocketmq, SignedHeaders=x-mq-date-time, Signature=00ff", "app", "AP8="),
        ("MQv2-HMAC-SHA1 Credential=app/cn/RocketMQ, Signature=xyz", "app", ""),
        ("MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=", "", ""),
        ("", "", ""),
        ("nonsense", "", ""),
    ],
)
def test_an_authorization_header_names_a_user_and_a_signature(header: str, name: str, signature: str) -> None:
    assert credentials(header) == (name, signature)
