"""``gantry server``, ``gantry nameserver``, ``gantry broker``: start the programs and stop them in order."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import DEFAULT_LISTEN_PORT, BrokerConfig, from_properties
from gantrymq.cli import supervise
from gantrymq.errors import ConfigError, GantryError
from gantrymq.nameserver.config import DEFAULT_PORT, NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork, split_address
from gantrymq.runtime.rng import SystemRng

LOOPBACK: Final = "127.0.0.1"
ANY_ADDRESS: Final = "0.0.0.0"
STOP_SECONDS: Final = 15.0
"""How long an orderly stop may take; what was acknowledged is safe in any case."""

GC_THRESHOLDS: Final = (20_000, 20, 50)
"""A send makes a few short-lived objects that need no collector; Python's default would look after every 700."""

Started = AbstractAsyncContextManager[str]
"""A running program; the text says where it is reached."""

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="A RocketMQ broker.conf. Options of the command line win.")
]
Store = Annotated[Path | None, typer.Option(help="Directory of the messages (storePathRootDir).")]
Flush = Annotated[
    str | None,
    typer.Option(help="sync: an acknowledged message is on the disk (default). async: faster; a power cut loses the "
                      "last half second."),
]  # fmt: skip
BrokerPort = Annotated[
    int | None, typer.Option(help=f"Port of the broker; 0: any free one. Default: {DEFAULT_LISTEN_PORT}.")
]
HttpPort = Annotated[
    int | None,
    typer.Option(help="Port of the HTTP endpoint: transactions and health as JSON, read only, for this machine "
                      "(httpPort, httpBindAddress). Default: 0, none."),
]  # fmt: skip
BrokerName = Annotated[str | None, typer.Option(help="Name of the broker (brokerName).")]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]


def server(
    config: ConfigFile = None,
    store: Store = None,
    listen_port: BrokerPort = None,
    name_server_port: Annotated[
        int | None,
        typer.Option("--name-server-port", "--namesrv-port",
                     help=f"Port of the name server; 0: any free one. Default: {DEFAULT_PORT}."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address that clients connect to. Default: 127.0.0.1, this machine only.")
    ] = None,
    flush: Flush = None,
    http_port: HttpPort = None,
    broker_name: BrokerName = None,
    brokers: Annotated[
        int | None,
        typer.Option(help="So many brokers, each a process with its own part (broker-0, broker-1 ...) of the store "
                          "directory, on --listen-port, +10, +20 ... One that dies is started again."),
    ] = None,
    log_level: LogLevel = "warning",
) -> None:  # fmt: skip
    """Run a name server and a broker in one process. Stop it with Ctrl-C.

    Without options: name server on port 9876, broker on port 10911, messages in ./gantry-store. One broker uses one
    core; --brokers N runs N of them behind this name server.
    """

    def program() -> Started:
        settings = _settings(
            config, store, listen_port, flush, broker_name, http_port, default_store=Path("gantry-store"),
            base=BrokerConfig(),
        )  # fmt: skip
        address = host or settings.broker_ip1
        local = address == LOOPBACK
        listen = LOOPBACK if local and settings.bind_address == ANY_ADDRESS else settings.bind_address
        settings = dataclasses.replace(settings, broker_ip1=address, bind_address=listen)
        port = _name_server_port(name_server_port, settings)
        names = NameServerConfig(listen_host=listen, listen_port=port)
        if brokers is None:
            _check_single(Path(settings.store_path_root_dir))
            return _server(settings, names, config)
        root = Path(settings.store_path_root_dir)
        wanted = supervise.plans(brokers, root, settings.listen_port, broker_name, settings.http_port)
        for path in supervise.left_out(brokers, root):
            _say(f"warning: nobody serves the messages in {path}; start with more --brokers to reach them")
        options = ["--host", address, "--bind", listen, "--log-level", log_level]
        options += ["--config", str(config.resolve())] if config is not None else []
        options += ["--flush", flush] if flush is not None else []
        return _servers(wanted, names, options)

    _run("server", program, log_level)


def nameserver(
    listen_port: Annotated[int, typer.Option("--listen-port", "-p", help="0: any free port.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = ANY_ADDRESS,
    kv_config: Annotated[
        Path | None, typer.Option(help="File for key-values; without it they live as long as the process.")
    ] = None,
    log_level: LogLevel = "info",
) -> None:
    """Run a name server. Stop it with Ctrl-C."""

    def program() -> Started:
        path = str(kv_config.resolve()) if kv_config is not None else ""
        return _nameserver(NameServerConfig(listen_host=host, listen_port=listen_port, kv_config_path=path))

    _run("nameserver", program, log_level)


def broker(
    config: ConfigFile = None,
    store: Store = None,
    listen_port: BrokerPort = None,
    namesrv_addr: Annotated[
        str | None,
        typer.Option("--namesrv-addr", "-n", help="Name servers, host:port;host:port. Default: NAMESRV_ADDR."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address that clients connect to (brokerIP1). Default: this machine's.")
    ] = None,
    bind: Annotated[
        str | None, typer.Option(help="Address to listen on (bindAddress). Default: all of this machine.")
    ] = None,
    flush: Flush = None,
    http_port: HttpPort = None,
    broker_name: BrokerName = None,
    log_level: LogLevel = "info",
) -> None:
    """Run a broker. Stop it with Ctrl-C."""

    def program() -> Started:
        base = BrokerConfig(broker_ip1=_own_address(), namesrv_addr=os.environ.get("NAMESRV_ADDR", ""))
        settings = _settings(
            config, store, listen_port, flush, broker_name, http_port, default_store=Path.home() / "store", base=base
        )
        settings = dataclasses.replace(
            settings,
            broker_ip1=host or settings.broker_ip1,
            bind_address=bind or settings.bind_address,
            namesrv_addr=namesrv_addr or settings.namesrv_addr,
        )
        for name_server in settings.name_servers:
            _check_name_server(name_server)
        return _broker(settings, config)

    _run("broker", program, log_level)


# Settings.


def _settings(
    config: Path | None,
    store: Path | None,
    listen_port: int | None,
    flush: str | None,
    broker_name: str | None,
    http_port: int | None,
    *,
    default_store: Path,
    base: BrokerConfig,
) -> BrokerConfig:
    """``base``, what the file says over it, what the command line says over both."""
    settings = _read_config(config, base) if config is not None else base
    given: dict[str, Any] = {}
    if store is not None:
        given["store_path_root_dir"] = str(store.resolve())
    elif not settings.store_path_root_dir:
        given["store_path_root_dir"] = str(default_store.resolve())
    else:
        given["store_path_root_dir"] = str(Path(settings.store_path_root_dir).expanduser().resolve())
    if settings.store_path_commit_log:
        given["store_path_commit_log"] = str(Path(settings.store_path_commit_log).expanduser().resolve())
    if listen_port is not None:
        given["listen_port"] = listen_port
    if flush is not None:
        if flush.lower() not in ("sync", "async"):
            raise ConfigError(f"--flush is {flush!r}; write sync or async")
        given["flush_disk_type"] = f"{flush.upper()}_FLUSH"
    if broker_name is not None:
        given["broker_name"] = broker_name
    if http_port is not None:
        given["http_port"] = http_port
    return dataclasses.replace(settings, **given)


def _read_config(path: Path, base: BrokerConfig) -> BrokerConfig:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    settings, unknown = from_properties(text, base)
    if unknown:
        _say(f"warning: {path}: no effect, because unknown here: {', '.join(unknown)}")
    return settings


def _name_server_port(wanted: int | None, settings: BrokerConfig) -> int:
    """The port asked for; else that of namesrvAddr, so that a broker.conf alone starts the same server again."""
    if wanted is not None:
        return wanted
    if not settings.name_servers:
        return DEFAULT_PORT
    return _split(settings.name_servers[0])[1]


def _split(address: str) -> tuple[str, int]:
    try:
        return split_address(address)
    except ValueError as error:
        raise ConfigError(f"namesrvAddr: {error}") from error


def _check_name_server(address: str) -> None:
    """A name that cannot be resolved is a mistake; a name server that is down may come back."""
    host, port = _split(address)
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"the name server {address} is unknown: {error.strerror}; check --namesrv-addr") from error


def _check_single(store: Path) -> None:
    """Messages of several brokers must not be passed over silently."""
    if (store / "broker-0" / "commitlog").exists() and not (store / "commitlog").exists():
        raise ConfigError(
            f"{store} holds the messages of several brokers; start with --brokers, or give another --store"
        )


def _own_address() -> str:
    """The address by which other machines most likely reach this one; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return LOOPBACK


# Programs.


@asynccontextmanager
async def _nameserver(config: NameServerConfig) -> AsyncIterator[str]:
    name_server = NameServer(config, TcpNetwork(), SystemClock(), OsDisk())
    address = await name_server.start()
    try:
        yield f"name server {address}"
    finally:
        await name_server.close()


@asynccontextmanager
async def _broker(config: BrokerConfig, file: Path | None) -> AsyncIterator[str]:
    """``file``: the broker.conf, which keeps what tools change meanwhile."""
    disk = OsDisk()
    path = str(file.resolve()) if file is not None else ""
    running = Broker(config, TcpNetwork(), SystemClock(), SystemRng(), disk, config_file=path)
    try:
        address = await running.start()
        where = f"broker {config.broker_name} {address}, store {config.store_path_root_dir} ({config.flush_disk_type})"
        if running.http is not None:
            where += f", HTTP {running.http.address}"
        elif config.http_port:
            where += f", no HTTP (port {config.http_port} is in use)"
        if missing := running.registration.unregistered:
            where += f", waits for name server {', '.join(missing)} (clients find it as soon as one is there)"
        yield where
    finally:
        await running.close()
        disk.close()


@asynccontextmanager
async def _server(config: BrokerConfig, name_server: NameServerConfig, file: Path | None) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        where = await stack.enter_async_context(_nameserver(name_server))
        port = split_address(where.removeprefix("name server "))[1]
        known_as = LOOPBACK if name_server.listen_host == ANY_ADDRESS else name_server.listen_host
        config = dataclasses.replace(config, namesrv_addr=f"{known_as}:{port}")
        broker_where = await stack.enter_async_context(_broker(config, file))
        yield f"{where}, {broker_where}"


@asynccontextmanager
async def _servers(
    plans: list[supervise.Plan], name_server: NameServerConfig, options: list[str]
) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        where = await stack.enter_async_context(_nameserver(name_server))
        port = split_address(where.removeprefix("name server "))[1]
        known_as = LOOPBACK if name_server.listen_host == ANY_ADDRESS else name_server.listen_host
        commands = [supervise.command_of(plan, f"{known_as}:{port}", options) for plan in plans]
        children = [
            supervise.Child(plan, command, SystemClock(), _say) for plan, command in zip(plans, commands, strict=True)
        ]
        await stack.enter_async_context(supervise.running(children))
        reached = ", ".join(f"broker {child.plan.name} {child.address}" for child in children)
        yield f"{where}, {reached}, stores in {plans[0].store.parent}"


# Running.


def _run(name: str, program: Callable[[], Started], log_level: str) -> None:
    """Run until a signal comes; errors a person can act on become one sentence and exit status 1."""
    _set_up_logging(log_level)
    try:
        _run_loop(_until_stopped(name, program()))
    except GantryError as error:
        _say(f"gantry {name}: {error}")
        raise typer.Exit(1) from None
    except TimeoutError:
        _say(f"gantry {name}: the stop took longer than {STOP_SECONDS:g} s and was cut short; the next start recovers")
        raise typer.Exit(1) from None
    except OSError as error:
        _say(f"gantry {name}: {error}")
        raise typer.Exit(1) from None


async def _until_stopped(name: str, program: Started) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if os.environ.get(supervise.SUPERVISED):
        loop.add_reader(sys.stdin.fileno(), _until_input_ends, loop, stop)
    where = await _unless_stopped(program, stop)
    if where is None:
        return
    try:
        # What lives now lives until the end; the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        typer.echo(f"gantry {name} is ready: {where}. Stop with Ctrl-C.")
        sys.stdout.flush()
        await stop.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        async with asyncio.timeout(STOP_SECONDS):
            await program.__aexit__(None, None, None)


async def _unless_stopped(program: Started, stop: asyncio.Event) -> str | None:
    """Start; None when it was stopped before it had started. Starting may take long: recovery, other processes."""
    starting = asyncio.ensure_future(program.__aenter__())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return None
    return starting.result()


def _until_input_ends(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Whoever started this process is gone."""
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


def _run_loop(work: Any) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def _set_up_logging(level: str) -> None:
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        _say(f"--log-level is {level!r}; write debug, info, warning or error")
        raise typer.Exit(2)
    logging.basicConfig(level=number, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def _say(text: str) -> None:
    typer.echo(text, err=True)
