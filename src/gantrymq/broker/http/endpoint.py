"""Puts the HTTP server and its routes together."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gantrymq.broker.http.routes import Routes
from gantrymq.broker.http.server import Handler, HttpServer
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.transactions.explanations import TransactionExplanations
from gantrymq.errors import Unreachable
from gantrymq.observability.metrics import Metrics
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.network import Network
from gantrymq.store.message_store import MessageStore

if TYPE_CHECKING:
    from gantrymq.access.guard import Guard
    from gantrymq.broker.message_rights import MessageRights

log = logging.getLogger("gantrymq.http")


async def open_endpoint(
    config: LiveConfig,
    network: Network,
    clock: Clock,
    address: str,
    store: MessageStore,
    metrics: Metrics,
    explanations: TransactionExplanations,
    client_limits: ClientLimits,
    guard: Guard | None,
    rights: MessageRights | None,
) -> HttpServer | None:
    """The running endpoint. None when its port is in use, which is logged: messages are served all the same. ``guard``,
    ``rights``: None when the broker has no users."""
    handle: Handler = Routes(config, address, store, metrics, explanations, clock, rights).handle
    if guard is not None:
        from gantrymq.broker.http.guard import behind_guard

        handle = behind_guard(handle, guard)
    server = HttpServer(network, clock, handle, client_limits=client_limits)
    try:
        where = await server.start(config.network.http_bind_address, config.network.http_port)
    except Unreachable as error:
        log.error("there is no HTTP endpoint: %s; set httpPort to another port", error)
        return None
    log.info("HTTP endpoint on %s", where)
    return server
