"""``gantry proxy``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gantrymq.cli.serving.exposure import of_http, of_proxy, warning_of
from gantrymq.cli.serving.metrics_http import Measured, metrics_endpoint
from gantrymq.cli.serving.network import demands_tls, server_network
from gantrymq.cli.serving.running import Started, run, say
from gantrymq.errors import ConfigError
from gantrymq.runtime.addresses import ANY, LOOPBACK
from gantrymq.runtime.network import Network

NAME_SERVERS: Final = "NAMESRV_ADDR"
ACCESS_KEY: Final = "GANTRY_ACCESS_KEY"
SECRET_KEY: Final = "GANTRY_SECRET_KEY"
DEFAULT_GRPC_PORT: Final = 8081
"""RocketMQ's."""


def proxy(
    name_servers: str | None = None,
    grpc_port: int = DEFAULT_GRPC_PORT,
    bind: str = ANY,
    host: str = LOOPBACK,
    tls_config: Path | None = None,
    http_port: int = 0,
    http_bind: str = LOOPBACK,
    log_level: str = "info",
) -> None:
    """Run a proxy until a signal comes."""

    def program() -> Started:
        given = name_servers or os.environ.get(NAME_SERVERS, "")
        if not given:
            raise ConfigError("which name servers? give --name-servers host:port;host:port, or set NAMESRV_ADDR")
        return running_proxy(
            tuple(given.split(";")), (bind, grpc_port), host, server_network(tls_config), (http_bind, http_port)
        )

    run("proxy", program, log_level)


@asynccontextmanager
async def running_proxy(
    name_servers: tuple[str, ...], grpc: tuple[str, int], host: str, network: Network, http: tuple[str, int]
) -> AsyncIterator[str]:
    """``grpc``, ``http``: address and port of each. Raises ConfigError, and Unreachable when a port is in use."""
    try:
        from gantrymq.client.connection.endpoint import Outside
        from gantrymq.protocol.signature import Account
        from gantrymq.proxy.config import ProxyConfig
        from gantrymq.proxy.proxy import Proxy
    except ImportError as error:
        raise ConfigError(f"a proxy needs the package protobuf; run: pip install 'gantrymq[grpc]' ({error})") from error
    key, secret = os.environ.get(ACCESS_KEY, ""), os.environ.get(SECRET_KEY, "")
    if bool(key) != bool(secret):
        raise ConfigError(
            f"set both {ACCESS_KEY} and {SECRET_KEY}, to the account of the proxy, which is a super user of the "
            "brokers; or none of them, before a cluster without users"
        )
    account = Account(key, secret) if key else None
    config = ProxyConfig(name_servers=name_servers, bind=grpc[0], grpc_port=grpc[1], host=host, account=account)
    running = Proxy(config, Outside(network=network))
    address = await running.start()
    ports = [of_proxy(grpc[0], account is not None)]
    if http[1]:
        only_tls = demands_tls(network)
        ports.append(of_http("proxy", http[0], False, "--http-bind 127.0.0.1", only_tls=only_tls))
    for port in ports:
        if warning := warning_of(port):
            say(warning)
    labels = {"node_type": "proxy", "node_id": address}
    measured = Measured("proxy", address, running.metrics, labels, running.limits, healthy=lambda: running.healthy)
    try:
        async with metrics_endpoint(measured, network, *http) as where:
            yield f"gRPC {address}{where}"
    finally:
        await running.close()
