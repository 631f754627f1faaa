"""The HTTP door: for people and monitoring."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gantrymq.broker.client import Connection
from gantrymq.broker.door import Ground, Served
from gantrymq.broker.http.messages import Answer, Request
from gantrymq.broker.http.routes import ALIVE, Routes, alive
from gantrymq.broker.http.server import Handler, HttpServer
from gantrymq.errors import Unreachable

log = logging.getLogger("gantrymq.http")


class HttpDoor:
    """Answers questions. It has no clients that could be told something."""

    name: Final = "http"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._handle: Handler | None = None
        self._served = asyncio.Event()
        outside = ground.outside
        self._server = HttpServer(outside.network, outside.clock, self._answer, client_limits=ground.client_limits)

    @property
    def address(self) -> str:
        return self._server.address

    async def listen(self) -> None:
        """A port that is in use is logged: messages are served all the same."""
        network = self._ground.config.network
        try:
            where = await self._server.start(network.http_bind_address, network.http_port)
        except Unreachable as error:
            log.error("there is no HTTP endpoint: %s; set httpPort to another port", error)
            return
        log.info("HTTP endpoint on %s", where)

    def serve(self, broker: Served) -> None:
        users = broker.operations.users
        self._handle = Routes(self._ground.config, self._ground.outside.clock, broker).handle
        if users is not None:
            from gantrymq.broker.http.guard import behind_guard

            self._handle = behind_guard(self._handle, users.guard)
        self._served.set()

    async def refuse(self) -> None:
        await self._server.close()

    async def close(self) -> None:
        await self._server.close()

    def forget(self, client: Connection) -> None:
        """Nothing was asked of it here."""

    def last_request(self) -> str:
        return ""

    async def _answer(self, request: Request) -> Answer:
        if request.path == ALIVE:
            return alive(request)  # while the log is read again after a crash, too
        await self._served.wait()
        assert self._handle is not None, "it serves"
        return await self._handle(request)
