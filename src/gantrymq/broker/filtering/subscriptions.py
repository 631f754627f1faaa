"""Whether this broker can use a subscription, and which messages the subscription selects."""

from __future__ import annotations

import logging

from gantrymq.broker.filtering.predicate import SelectorInvalid
from gantrymq.broker.filtering.selection import SQL92, Selection, by_expression, by_tags, compiled, is_tag_type
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.heartbeat import SubscriptionData

log = logging.getLogger("gantrymq.broker")


def selection_of(config: LiveConfig, expression: str | None, expression_type: str | None) -> Selection:
    """Of a subscription that a request brings with it. Raises Refused."""
    try:
        if is_tag_type(expression_type):
            return by_tags(expression or "")
        selection = by_expression(expression, expression_type)
    except SelectorInvalid as error:
        raise Refused(Refusal.SELECTOR_INVALID, f"parse the consumer's subscription failed: {error}") from error
    require_property_filter(config, expression_type)
    return selection


def require_property_filter(config: LiveConfig, expression_type: str | None) -> None:
    """Raises Refused when messages may not be selected by their properties here."""
    if not config.groups.enable_property_filter:
        raise Refused(
            Refusal.SWITCHED_OFF,
            f"The broker does not support consumer to filter message by {expression_type}"
            " (enablePropertyFilter=true switches it on)",
        )


def check_selector(config: LiveConfig, group: str, data: SubscriptionData) -> None:
    """A client asks this before it subscribes. Raises Refused when the subscription cannot be used."""
    if is_tag_type(data.expression_type):
        return
    require_property_filter(config, data.expression_type)
    try:
        by_expression(data.sub_string, data.expression_type)
    except SelectorInvalid as error:
        raise Refused(Refusal.SELECTOR_INVALID, f"Invalid MessageSelector. {error}") from error
    ignored = compiled(data.sub_string).ignored if data.expression_type == SQL92 else ""
    if ignored:
        log.warning(
            "group %s: what follows the selector on %s is ignored, as Apache's broker does: %r",
            group, data.topic, ignored[:200],
        )  # fmt: skip
