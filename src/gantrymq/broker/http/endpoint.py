"""Puts the HTTP server and its routes together."""

from __future__ import annotations

import logging

from gantrymq.broker.http.routes import Routes
from gantrymq.broker.http.server import HttpServer
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.transactions.explanations import TransactionExplanations
from gantrymq.errors import Unreachable
from gantrymq.observability.metrics import Metrics
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.guard import Guard
from gantrymq.runtime.network import Network
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.http")


async def open_endpoint(
    config: LiveConfig,
    network: Network,
    clock: Clock,
    address: str,
    store: MessageStore,
    metrics: Metrics,
    explanations: TransactionExplanations,
    guard: Guard,
) -> HttpServer | None:
    """The running endpoint. None when its port is in use, which is logged: messages are served all the same."""
    server = HttpServer(network, clock, Routes(config, address, store, metrics, explanations).handle, guard=guard)
    try:
        where = await server.start(config.network.http_bind_address, config.network.http_port)
    except Unreachable as error:
        log.error("there is no HTTP endpoint: %s; set httpPort to another port", error)
        return None
    log.info("HTTP endpoint on %s", where)
    return server
