from __future__ import annotations

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.refusals import RESPONSE_CODES, rejection
from gantrymq.errors import StoreError
from gantrymq.protocol.codes import ResponseCode


def test_every_refusal_has_a_response_code_that_is_no_success() -> None:
    assert set(RESPONSE_CODES) == set(Refusal)
    assert ResponseCode.SUCCESS not in RESPONSE_CODES.values()


def test_every_refusal_says_what_it_means_in_a_sentence() -> None:
    assert all(reason.value[0].isupper() and reason.value.endswith(".") for reason in Refusal)


def test_a_refusal_is_answered_with_its_code_and_remark() -> None:
    assert rejection(Refused(Refusal.BUSY, "wait")) == (ResponseCode.SYSTEM_BUSY, "wait")


def test_another_error_is_no_refusal() -> None:
    assert rejection(StoreError("it failed")) is None
