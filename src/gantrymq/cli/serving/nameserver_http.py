"""The HTTP endpoint of a name server: ``/metrics`` for Prometheus, ``/alive`` and ``/health`` for probes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from gantrymq import __version__
from gantrymq.nameserver.metrics import common_labels
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.observability.exposition import CONTENT_TYPE, Exposition
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import Network
from gantrymq.runtime.stepwise import gathered

if TYPE_CHECKING:
    from gantrymq.broker.http.messages import Answer, Request

PROBES: Final = (("alive",), ("health",))
"""A name server that answers works: what it knows, brokers tell it again."""


@asynccontextmanager
async def metrics_endpoint(name_server: NameServer, network: Network, host: str, port: int) -> AsyncIterator[str]:
    """Serve ``/metrics`` meanwhile. Yields where, as words for people; nothing with port 0.

    Raises Unreachable when the port is in use.
    """
    if not port:
        yield ""
        return
    # Not at the top: most name servers have no such endpoint, and need less memory without its modules.
    from http import HTTPStatus

    from gantrymq.broker.http.messages import Answer, HttpError, answer
    from gantrymq.broker.http.server import Handler, HttpServer

    exposition = Exposition(name_server.metrics, common_labels(name_server.address))

    async def handle(request: Request) -> Answer:
        if request.path in PROBES and not request.query:
            return answer({"status": "ok", "address": name_server.address, "version": __version__})
        if request.path != ("metrics",) or request.query:
            reason = "a name server answers /metrics, /alive and /health, without parameters"
            raise HttpError(HTTPStatus.NOT_FOUND, reason)
        pieces = await gathered(SystemClock(), exposition.steps())
        return Answer(HTTPStatus.OK, b"".join(pieces), content_type=CONTENT_TYPE)

    answered: Handler = handle
    if name_server.guard is not None:
        from gantrymq.broker.http.guard import behind_guard

        answered = behind_guard(handle, name_server.guard)
    server = HttpServer(network, SystemClock(), answered, client_limits=name_server.client_limits)
    address = await server.start(host, port)
    try:
        yield f", metrics at http://{address}/metrics"
    finally:
        await server.close()
