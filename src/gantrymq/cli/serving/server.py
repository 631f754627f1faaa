"""``gantry server``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from gantrymq.broker.config import BrokerConfig
from gantrymq.cli.serving import supervise
from gantrymq.cli.serving.access import access_of_name_server, check_inner_account, users_of
from gantrymq.cli.serving.broker import running_broker
from gantrymq.cli.serving.nameserver import running_name_server
from gantrymq.cli.serving.network import server_network
from gantrymq.cli.serving.running import Started, run, say
from gantrymq.cli.serving.settings import check_single, name_server_port_of, numeric_ip, settings_of
from gantrymq.errors import ConfigError
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.runtime.addresses import ANY, EVERYWHERE, LOOPBACK, LOOPBACK_V6, address_of, is_loopback, split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import Network


def server(
    config: Path | None = None,
    store: Path | None = None,
    listen_port: int | None = None,
    name_server_port: int | None = None,
    name_server_http_port: int = 0,
    host: str | None = None,
    flush: str | None = None,
    http_port: int | None = None,
    grpc_port: int | None = None,
    broker_name: str | None = None,
    brokers: int | None = None,
    replicas: int | None = None,
    tls_config: Path | None = None,
    log_level: str = "warning",
) -> None:
    """Run a name server and a broker, or a name server and the processes of several brokers, until a signal comes."""

    def program() -> Started:
        settings = settings_of(
            config, store, listen_port, flush, broker_name, http_port, grpc_port,
            default_store=lambda: Path("gantry-store"),
            base=BrokerConfig(),
        )  # fmt: skip
        address = host or settings.network.broker_ip1
        local = is_loopback(address) and settings.network.bind_address == ANY
        listen = numeric_ip(address) if local else settings.network.bind_address
        settings = settings.replaced(broker_ip1=address, bind_address=listen)
        port = name_server_port_of(name_server_port, settings)
        network = server_network(tls_config, own_name_server=True)
        names = NameServerConfig(
            listen_host=listen, listen_port=port, limits=settings.network.limits,
            cluster_name=settings.identity.broker_cluster_name,
        )  # fmt: skip
        check_inner_account(settings)
        if replicas is not None:
            if brokers is not None:
                raise ConfigError("give --brokers or --replicas: a group has one broker that takes messages")
            from gantrymq.cli.serving.replicas import group_plans  # loaded only where it is asked for

            options = _options(address, listen, log_level, flush, tls_config)
            root = Path(settings.store.store_path_root_dir)
            members = group_plans(replicas, root, settings)
            names = replace(names, access=access_of_name_server(settings, root, config))
            return _group(members, settings, names, name_server_http_port, options, network, config)
        if brokers is None:
            check_single(Path(settings.store.store_path_root_dir))
            return _server(settings, names, name_server_http_port, config, network)
        root = Path(settings.store.store_path_root_dir)
        names = replace(names, access=access_of_name_server(settings, root, config))
        wanted = supervise.plans(
            brokers, root, settings.network.listen_port, broker_name, settings.network.http_port,
            settings.network.grpc_port,
        )  # fmt: skip
        for path in supervise.left_out(brokers, root):
            say(f"warning: nobody serves the messages in {path}; start with more --brokers to reach them")
        options = _options(address, listen, log_level, flush, tls_config)
        options += ["--config", str(config.resolve())] if config is not None else []
        return _servers(wanted, names, name_server_http_port, options, network)

    run("server", program, log_level)


def _options(address: str, listen: str, log_level: str, flush: str | None, tls_config: Path | None) -> list[str]:
    """Of each broker process."""
    options = ["--host", address, "--bind", listen, "--log-level", log_level]
    options += ["--flush", flush] if flush is not None else []
    options += ["--tls-config", str(tls_config.resolve())] if tls_config is not None else []
    return options


def _known_here(listen_host: str) -> str:
    """Where the brokers of this machine find the name server."""
    if listen_host not in EVERYWHERE:
        return listen_host
    return LOOPBACK if listen_host == ANY else LOOPBACK_V6


@asynccontextmanager
async def _server(
    config: BrokerConfig, name_server: NameServerConfig, http_port: int, file: Path | None, network: Network
) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        access = users_of(config, file)
        http = (LOOPBACK, http_port)
        where = await stack.enter_async_context(running_name_server(name_server, network, http, access))
        port = split_address(where.removeprefix("name server ").partition(",")[0])[1]
        known_as = _known_here(name_server.listen_host)
        config = config.replaced(namesrv_addr=address_of(known_as, port))
        broker_where = await stack.enter_async_context(running_broker(config, file, network, access))
        yield f"{where}, {broker_where}"


@asynccontextmanager
async def _servers(
    plans: list[supervise.Plan], name_server: NameServerConfig, http_port: int, options: list[str], network: Network
) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        where = await stack.enter_async_context(running_name_server(name_server, network, (LOOPBACK, http_port)))
        port = split_address(where.removeprefix("name server ").partition(",")[0])[1]
        known_as = _known_here(name_server.listen_host)
        commands = [supervise.command_of(plan, address_of(known_as, port), options) for plan in plans]
        children = [
            supervise.Child(plan, command, SystemClock(), say) for plan, command in zip(plans, commands, strict=True)
        ]
        await stack.enter_async_context(supervise.running(children))
        reached = ", ".join(f"broker {child.plan.name} {child.address}" for child in children)
        yield f"{where}, {reached}, stores in {plans[0].store.parent}"


@asynccontextmanager
async def _group(
    plans: list[supervise.Plan], settings: BrokerConfig, name_server: NameServerConfig, http_port: int,
    options: list[str], network: Network, file: Path | None,
) -> AsyncIterator[str]:  # fmt: skip
    from gantrymq.cli.serving.replicas import elected, running_etcd, write_config

    root = plans[0].store.parent
    async with AsyncExitStack() as stack:
        given = ";".join(settings.replication.etcd)
        etcd = given or await stack.enter_async_context(running_etcd(root))
        where = await stack.enter_async_context(running_name_server(name_server, network, (LOOPBACK, http_port)))
        port = split_address(where.removeprefix("name server ").partition(",")[0])[1]
        known_as = address_of(_known_here(name_server.listen_host), port)
        children = []
        for number, plan in enumerate(plans, 1):
            own = ["--config", str(write_config(plan, number, etcd, file).resolve())]
            command = supervise.command_of(plan, known_as, [*options, *own])
            children.append(supervise.Child(replace(plan, name=f"replica-{number}"), command, SystemClock(), say))
        await stack.enter_async_context(supervise.running(children))
        primary = await elected(settings, etcd)
        reached = ", ".join(child.address for child in children)
        group = f"broker group {plans[0].name} ({reached})"
        yield f"{where}, {group}, the primary is {primary}, etcd {etcd}, stores in {root}"
