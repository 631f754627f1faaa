"""CHECK_CLIENT_CONFIG (46): a client asks whether its selector can be used here, before it subscribes.

Source: ClientManageProcessor.checkClientConfig; docs/selectors.md.
"""

from __future__ import annotations

from gantrymq.broker.filtering.subscriptions import check_selector
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.bodies.heartbeat import CheckClient
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response


class ClientConfigHandler:
    """Handles CHECK_CLIENT_CONFIG."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config

    def check(self, session: ClientSession, command: Command) -> bytes:
        request = CheckClient.of_request(command.body) if command.body else None
        if request is not None and request.subscription_data is not None:
            check_selector(self._config, request.group, request.subscription_data)
        return encode_response(command, ResponseCode.SUCCESS)
