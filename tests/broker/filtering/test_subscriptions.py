"""Whether a subscription can be used here."""

from __future__ import annotations

import logging

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.filtering.selection import EVERYTHING
from gantrymq.broker.filtering.subscriptions import check_selector, selection_of
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.heartbeat import SubscriptionData
from gantrymq.message.tags import java_hash

PLAIN = LiveConfig(BrokerConfig())
FILTERING = LiveConfig(BrokerConfig.of(enable_property_filter=True))


def test_tags_can_always_be_used() -> None:
    assert selection_of(PLAIN, "*", "TAG") == EVERYTHING
    assert selection_of(PLAIN, None, None) == EVERYTHING
    assert selection_of(PLAIN, "A || B", "TAG").tag_codes == {java_hash("A"), java_hash("B")}


def test_expressions_can_be_used_where_properties_may_select() -> None:
    assert selection_of(FILTERING, "a > 1", "SQL92").takes(0, "a\x012\x02")
    with pytest.raises(Refused, match="enablePropertyFilter") as caught:
        selection_of(PLAIN, "a > 1", "SQL92")
    assert caught.value.reason is Refusal.SWITCHED_OFF


@pytest.mark.parametrize(("expression", "kind"), [("a >", "SQL92"), ("", "SQL92"), ("a", "REGEX")])
def test_what_is_no_selector_is_refused(expression: str, kind: str) -> None:
    with pytest.raises(Refused) as caught:
        selection_of(FILTERING, expression, kind)
    assert caught.value.reason is Refusal.SELECTOR_INVALID


def data(expression: str, kind: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic="T", sub_string=expression, expression_type=kind, sub_version=1)


def test_a_client_asks_before_it_subscribes(caplog: pytest.LogCaptureFixture) -> None:
    check_selector(PLAIN, "G", data("A || B", "TAG"))
    check_selector(FILTERING, "G", data("a > 1"))
    for config, expression, reason in (
        (PLAIN, "a > 1", Refusal.SWITCHED_OFF),
        (FILTERING, "a >", Refusal.SELECTOR_INVALID),
    ):
        with pytest.raises(Refused) as caught:
            check_selector(config, "G", data(expression))
        assert caught.value.reason is reason
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "gantrymq.broker"):
        check_selector(FILTERING, "G", data("a > 1 b"))
    assert "ignored" in caplog.text
