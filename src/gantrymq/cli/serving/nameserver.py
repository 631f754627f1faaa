"""``gantry nameserver``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gantrymq.cli.serving.exposure import of_http, of_name_server, warning_of
from gantrymq.cli.serving.metrics_http import Measured, metrics_endpoint
from gantrymq.cli.serving.network import demands_tls, server_network
from gantrymq.cli.serving.running import Started, run, say
from gantrymq.errors import ConfigError
from gantrymq.nameserver.config import NameServerConfig, from_properties
from gantrymq.nameserver.metrics import common_labels
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.addresses import LOOPBACK
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import Network

if TYPE_CHECKING:
    from gantrymq.access.opening import Access


def nameserver(
    config: Path | None = None,
    listen_port: int | None = None,
    host: str | None = None,
    kv_config: Path | None = None,
    tls_config: Path | None = None,
    http_port: int = 0,
    http_bind: str = LOOPBACK,
    log_level: str = "info",
) -> None:
    """Run a name server until a signal comes."""

    def program() -> Started:
        settings = _settings_of(config, listen_port, host, kv_config)
        return running_name_server(settings, server_network(tls_config), (http_bind, http_port))

    run("nameserver", program, log_level)


def _settings_of(file: Path | None, listen_port: int | None, host: str | None, kv: Path | None) -> NameServerConfig:
    """What the file says, overridden by the command line."""
    settings = NameServerConfig() if file is None else _read_config(file)
    given: dict[str, Any] = {}
    if listen_port is not None:
        given["listen_port"] = listen_port
    if host is not None:
        given["listen_host"] = host
    if kv is not None:
        given["kv_config_path"] = str(kv.resolve())
    return replace(settings, **given)


def _read_config(path: Path) -> NameServerConfig:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    settings, unknown = from_properties(text, NameServerConfig())
    if unknown:
        say(f"warning: {path}: no effect, because unknown here: {', '.join(unknown)}")
    return settings


@asynccontextmanager
async def running_name_server(
    config: NameServerConfig,
    network: Network,
    http: tuple[str, int] = (LOOPBACK, 0),
    access: Access | None = None,
) -> AsyncIterator[str]:
    """``http``: address and port of ``/metrics``; port 0: none. ``access``: the users of the broker in the same
    process."""
    name_server = NameServer(config, network, SystemClock(), OsDisk(), access)
    address = await name_server.start()
    has_users = name_server.guard is not None
    ports = [of_name_server(config.listen_host, has_users)]
    if http[1]:
        only_tls = demands_tls(network)
        ports.append(of_http("name server", http[0], has_users, "--http-bind 127.0.0.1", only_tls=only_tls))
    for port in ports:
        if warning := warning_of(port):
            say(warning)
    name_server.loop_watch.start()
    where_from = name_server.address
    measured = Measured(
        "name server", where_from, name_server.metrics, common_labels(where_from), name_server.client_limits,
        name_server.guard,
    )  # fmt: skip
    try:
        async with metrics_endpoint(measured, network, *http) as where:
            yield f"name server {address}{where}"
    finally:
        name_server.loop_watch.stop()
        await name_server.close()
