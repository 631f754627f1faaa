"""Puts server and routes together."""

from __future__ import annotations

import logging

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.http.routes import Routes
from gantrymq.broker.http.server import HttpServer
from gantrymq.broker.transaction_desk import TransactionDesk
from gantrymq.broker.transaction_stories import TransactionStories
from gantrymq.errors import Unreachable
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.network import Network
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.http")


async def open_endpoint(
    config: BrokerConfig,
    network: Network,
    clock: Clock,
    address: str,
    store: MessageStore,
    desk: TransactionDesk,
    stories: TransactionStories,
) -> HttpServer | None:
    """The running endpoint. None when its port is in use, which is logged: messages are served all the same."""
    server = HttpServer(network, clock, Routes(config, address, store, desk, stories).handle)
    try:
        where = await server.start(config.http_bind_address, config.http_port)
    except Unreachable as error:
        log.error("there is no HTTP endpoint: %s; set httpPort to another port", error)
        return None
    log.info("HTTP endpoint on %s", where)
    return server
