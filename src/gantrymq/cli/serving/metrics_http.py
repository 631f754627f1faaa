"""The HTTP endpoint of a name server, and of a proxy: ``/metrics`` for Prometheus, ``/alive`` and ``/health`` for
probes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gantrymq import __version__
from gantrymq.access.guard import Guard
from gantrymq.observability.exposition import CONTENT_TYPE, Exposition
from gantrymq.observability.metrics import Metrics
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.network import Network
from gantrymq.runtime.stepwise import gathered

if TYPE_CHECKING:
    from gantrymq.broker.http.messages import Answer, Request

PROBES: Final = (("alive",), ("health",))


@dataclass(frozen=True, slots=True)
class Measured:
    """What such an endpoint shows."""

    what: str
    """For people: ``name server``, ``proxy``."""
    address: str
    metrics: Metrics
    labels: Mapping[str, str]
    """Those that every metric has."""
    limits: ClientLimits
    guard: Guard | None = None
    healthy: Callable[[], bool] = lambda: True
    """A name server that answers works: what it knows, brokers tell it again."""


@asynccontextmanager
async def metrics_endpoint(measured: Measured, network: Network, host: str, port: int) -> AsyncIterator[str]:
    """Serve ``/metrics`` meanwhile. Yields where, as words for people; nothing with port 0.

    Raises Unreachable when the port is in use.
    """
    if not port:
        yield ""
        return
    # Not at the top: most servers have no such endpoint, and need less memory without its modules.
    from http import HTTPStatus

    from gantrymq.broker.http.messages import Answer, HttpError, answer
    from gantrymq.broker.http.server import Handler, HttpServer

    exposition = Exposition(measured.metrics, measured.labels)

    async def handle(request: Request) -> Answer:
        if request.path in PROBES and not request.query:
            if request.path == ("health",) and not measured.healthy():
                raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"the {measured.what} reaches no broker")
            return answer({"status": "ok", "address": measured.address, "version": __version__})
        if request.path != ("metrics",) or request.query:
            reason = f"a {measured.what} answers /metrics, /alive and /health, without parameters"
            raise HttpError(HTTPStatus.NOT_FOUND, reason)
        pieces = await gathered(SystemClock(), exposition.steps())
        return Answer(HTTPStatus.OK, b"".join(pieces), content_type=CONTENT_TYPE)

    answered: Handler = handle
    if measured.guard is not None:
        from gantrymq.broker.http.guard import behind_guard

        answered = behind_guard(handle, measured.guard)
    server = HttpServer(network, SystemClock(), answered, client_limits=measured.limits)
    address = await server.start(host, port)
    try:
        yield f", metrics at http://{address}/metrics"
    finally:
        await server.close()
