"""``gantry nameserver``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gantrymq.cli.serving.nameserver_http import LOOPBACK, metrics_endpoint
from gantrymq.cli.serving.network import server_network
from gantrymq.cli.serving.running import Started, run
from gantrymq.nameserver.config import DEFAULT_PORT, NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import Network

ANY_ADDRESS: Final = "0.0.0.0"


def nameserver(
    listen_port: int = DEFAULT_PORT,
    host: str = ANY_ADDRESS,
    kv_config: Path | None = None,
    tls_config: Path | None = None,
    http_port: int = 0,
    http_bind: str = LOOPBACK,
    log_level: str = "info",
) -> None:
    """Run a name server until a signal comes."""

    def program() -> Started:
        path = str(kv_config.resolve()) if kv_config is not None else ""
        config = NameServerConfig(listen_host=host, listen_port=listen_port, kv_config_path=path)
        return running_name_server(config, server_network(tls_config), (http_bind, http_port))

    run("nameserver", program, log_level)


@asynccontextmanager
async def running_name_server(
    config: NameServerConfig, network: Network, http: tuple[str, int] = (LOOPBACK, 0)
) -> AsyncIterator[str]:
    """``http``: address and port of ``/metrics``; port 0: none."""
    name_server = NameServer(config, network, SystemClock(), OsDisk())
    address = await name_server.start()
    try:
        async with metrics_endpoint(name_server, network, *http) as where:
            yield f"name server {address}{where}"
    finally:
        await name_server.close()
