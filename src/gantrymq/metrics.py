"""What the clients of this process count, for Prometheus. See docs/metrics.md.

| your program has                    | write                                                             |
|-------------------------------------|-------------------------------------------------------------------|
| an ASGI app (FastAPI, Starlette)    | ``app.mount("/metrics", gantrymq.metrics.app)``                   |
| metrics of prometheus_client        | ``gantrymq.metrics.register()``                                   |
| no web server                       | ``gantrymq.metrics.serve(9101)``                                  |
| something else                      | ``gantrymq.metrics.exposition()``, the text                       |
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from gantrymq.client.metrics.declared import metrics_of
from gantrymq.client.metrics.registry import CLIENTS
from gantrymq.observability.exposition import CONTENT_TYPE, Exposition
from gantrymq.runtime.addresses import is_loopback

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_EXPOSITION: Final = Exposition(metrics_of(CLIENTS), {})
log = logging.getLogger("gantrymq.client")
_Message = MutableMapping[str, Any]


def exposition() -> bytes:
    """The metrics of all clients of this process, in Prometheus' text format, version 0.0.4."""
    return _EXPOSITION.text()


def register(registry: CollectorRegistry | None = None) -> None:
    """Add them to a registry of prometheus_client; None: its default one. Once for each registry."""
    if registry is None:
        from prometheus_client import REGISTRY

        registry = REGISTRY
    registry.register(_EXPOSITION)


def serve(port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Serve them at the path ``/metrics`` of this address, in a thread. Returns a function that ends this.

    They name topics and groups. There are no users: on another address than a loopback one, whoever reaches the port
    reads them, and the log says so. Raises OSError when the port is in use.
    """
    from prometheus_client import CollectorRegistry, start_http_server

    if not is_loopback(host):
        log.warning("the metrics of this process are served on %s to everybody who can connect to port %d", host, port)
    registry = CollectorRegistry()
    register(registry)
    server, thread = start_http_server(port, host, registry)

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return end


async def app(
    scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
) -> None:
    """An ASGI application that answers every GET with them."""
    if scope["type"] != "http":
        return
    allowed = scope["method"] in ("GET", "HEAD")
    body = exposition() if allowed else b"read this with GET\n"
    kind = CONTENT_TYPE if allowed else "text/plain; charset=utf-8"
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    headers += [] if allowed else [(b"allow", b"GET, HEAD")]
    await send({"type": "http.response.start", "status": 200 if allowed else 405, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


__all__ = ["app", "exposition", "register", "serve"]
