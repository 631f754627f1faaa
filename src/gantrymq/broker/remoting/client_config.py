"""CHECK_CLIENT_CONFIG (46): a client asks whether its selector can be used here, before it subscribes.

Source: ClientManageProcessor.checkClientConfig; wire-protocol.md 5.6.
"""

from __future__ import annotations

import logging

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.filtering.predicate import SelectorInvalid
from gantrymq.broker.filtering.selection import SQL92, by_expression, compiled, is_tag_type
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.bodies.heartbeat import CheckClient
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response

log = logging.getLogger("gantrymq.broker")


class ClientConfigProcessor:
    """Handles CHECK_CLIENT_CONFIG."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def check(self, session: ClientSession, command: Command) -> bytes:
        request = CheckClient.decode(command.body) if command.body else None
        data = request.subscription_data if request is not None else None
        if request is None or data is None or is_tag_type(data.expression_type):
            return encode_response(command, ResponseCode.SUCCESS)
        require_property_filter(self._config, data.expression_type)
        try:
            by_expression(data.sub_string, data.expression_type)
        except SelectorInvalid as error:
            raise Refused(Refusal.SELECTOR_INVALID, f"Invalid MessageSelector. {error}") from error
        ignored = compiled(data.sub_string).ignored if data.expression_type == SQL92 else ""
        if ignored:
            log.warning(
                "group %s: what follows the selector on %s is ignored, as Apache's broker does: %r",
                request.group, data.topic, ignored,
            )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS)


def require_property_filter(config: BrokerConfig, expression_type: str | None) -> None:
    """Raises Refused when messages may not be selected by their properties here."""
    if not config.enable_property_filter:
        raise Refused(
            Refusal.FAILED,
            f"The broker does not support consumer to filter message by {expression_type}"
            " (enablePropertyFilter=true switches it on)",
        )
