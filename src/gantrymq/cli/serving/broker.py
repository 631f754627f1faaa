"""``gantry broker``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.cli.serving.exposure import of_broker, of_http, warning_of
from gantrymq.cli.serving.network import demands_tls, server_network
from gantrymq.cli.serving.running import Started, run, say
from gantrymq.cli.serving.settings import check_name_server, numeric_ip, settings_of
from gantrymq.runtime.addresses import LOOPBACK
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.guesses.directories import home_directory
from gantrymq.runtime.guesses.own_address import own_address
from gantrymq.runtime.network import Network
from gantrymq.runtime.rng import SystemRng

if TYPE_CHECKING:
    from gantrymq.access.opening import Access


def broker(
    config: Path | None = None,
    store: Path | None = None,
    listen_port: int | None = None,
    namesrv_addr: str | None = None,
    host: str | None = None,
    bind: str | None = None,
    flush: str | None = None,
    http_port: int | None = None,
    grpc_port: int | None = None,
    broker_name: str | None = None,
    tls_config: Path | None = None,
    log_level: str = "info",
) -> None:
    """Run a broker until a signal comes."""

    def program() -> Started:
        base = BrokerConfig.of(broker_ip1=own_address() or LOOPBACK, namesrv_addr=os.environ.get("NAMESRV_ADDR", ""))
        settings = settings_of(
            config,
            store,
            listen_port,
            flush,
            broker_name,
            http_port,
            grpc_port,
            base=base,
            default_store=lambda: home_directory("give --store, or storePathRootDir in the settings") / "store",
        )
        settings = settings.replaced(
            broker_ip1=host or settings.network.broker_ip1,
            bind_address=bind or settings.network.bind_address,
            namesrv_addr=namesrv_addr or settings.network.namesrv_addr,
        )
        for name_server in settings.network.name_servers:
            check_name_server(name_server)
        if settings.network.broker_ip1 == LOOPBACK and own_address() is None:
            say(
                "warning: this machine has no address but its loopback, so only programs on it can reach this broker; "
                "if others shall, give --host"
            )
        return running_broker(settings, config, server_network(tls_config))

    run("broker", program, log_level)


def _warn(config: BrokerConfig, network: Network, *, has_users: bool) -> None:
    ports = [of_broker(config.network.bind_address, has_users)]
    if config.network.http_port:
        setting, only_tls = "httpBindAddress=127.0.0.1", demands_tls(network)
        ports.append(of_http("broker", config.network.http_bind_address, has_users, setting, only_tls=only_tls))
    for port in ports:
        if warning := warning_of(port):
            say(warning)


@asynccontextmanager
async def running_broker(
    config: BrokerConfig, file: Path | None, network: Network, access: Access | None = None
) -> AsyncIterator[str]:
    """``file``: the broker.conf, which keeps what tools change meanwhile. ``access``: users that are open already."""
    disk = OsDisk()
    path = str(file.resolve()) if file is not None else ""
    running = Broker(
        config, network, SystemClock(), SystemRng(), disk, config_file=path, access=access,
        own_ip=numeric_ip(config.network.broker_ip1),
    )  # fmt: skip
    try:
        address = await running.start()
        _warn(config, network, has_users=running.guard is not None)
        running.loop_watch.start()
        name, store = config.identity.broker_name, config.store
        where = f"broker {name} {address}, store {store.store_path_root_dir} ({store.flush_disk_type})"
        http = running.door("http")
        if http is not None and http.address:
            where += f", HTTP {http.address}"
        elif http is not None:
            where += f", no HTTP (port {config.network.http_port} is in use)"
        if config.network.grpc_port:
            where += f", gRPC {running.doors[-1].address}"
        if missing := running.registration.unregistered:
            where += f", waits for name server {', '.join(missing)} (clients find it as soon as one is there)"
        for name_server, reason in running.registration.refused.items():
            where += f", REFUSED by name server {name_server}, so that clients cannot find it: {reason}"
        yield where
    finally:
        running.loop_watch.stop()
        await running.close()
        disk.close()
