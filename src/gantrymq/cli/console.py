"""``gantry console``: serves the pages about a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gantrymq.admin.audit import default_path
from gantrymq.cli.cluster_options import LOCAL, USAGE, NameServers, fail
from gantrymq.cli.serving.exposure import of_console, warning_of
from gantrymq.cli.serving.running import run, say
from gantrymq.errors import ConfigError, Unreachable
from gantrymq.runtime.addresses import address_of, is_loopback
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from gantrymq.console.settings import ConsoleSettings

NAME: Final = "console"
PORT: Final = 8088
NEEDED: Final = ("starlette", "uvicorn", "jinja2")
START_SECONDS: Final = 20.0
CONNECTIONS_MAX: Final = 1_000
STOP_SECONDS: Final = 1
"""How long open pages may go on when the console stops."""


def console(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="Port to listen on; 0: a free one.")] = PORT,
    settings: Annotated[
        Path | None, typer.Option("--settings", "-s", help="TOML file with users; without one nobody can log in.")
    ] = None,
    broker_users: Annotated[
        bool, typer.Option("--broker-users", help="People log in as users of the brokers, whose rights decide.")
    ] = False,
    root_path: Annotated[
        str | None,
        typer.Option(
            "--root-path",
            envvar="GANTRY_CONSOLE_ROOT_PATH",
            show_envvar=True,
            help="Prefix of all paths behind a reverse proxy, e.g. /gantry.",
        ),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option("--audit", help="The audit file. Default: GANTRY_AUDIT, else ~/.local/state/gantry/audit.jsonl."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="PEM file with the certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="PEM file with its private key.")] = None,
    new_user: Annotated[
        str | None,
        typer.Option("--new-user", help="Ask for a password and print what the settings file needs for this user."),
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "warning",
    name_servers: NameServers = LOCAL,
) -> None:
    """Show a cluster in the browser, transactions first; it works with Apache's clusters, too.

    Without a settings file everybody who reaches it may look, and nobody may change anything.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        fail(f"{', '.join(missing)} not installed; install gantrymq[console]", NAME)
    if new_user is not None:
        _print_user(new_user)
        return
    try:
        chosen = _settings(settings, broker_users, root_path)
        _check_open(host, chosen)
        if (tls_cert is None) != (tls_key is None):
            raise ConfigError("give --tls-cert and --tls-key, or neither")
    except ConfigError as error:
        fail(str(error), NAME, USAGE)
    secure = tls_cert is not None or chosen.behind_proxy
    if warning := warning_of(of_console(host, has_users=True, only_tls=secure)):
        say(warning)
    run(
        NAME,
        lambda: _running(host, port, chosen, audit or default_path(), tls_cert, tls_key, name_servers),
        log_level,
    )


def _settings(path: Path | None, broker_users: bool, root_path: str | None) -> ConsoleSettings:
    from gantrymq.console.root_path import parse_root_path
    from gantrymq.console.settings import OPEN_TO_LOOK, ConsoleSettings, read_settings

    if path is None:
        chosen = ConsoleSettings(broker_users=True) if broker_users else OPEN_TO_LOOK
    else:
        chosen = replace(read_settings(path), broker_users=broker_users)
    return chosen if root_path is None else replace(chosen, root_path=parse_root_path(root_path))


def _check_open(host: str, settings: ConsoleSettings) -> None:
    """Whoever may look sees messages: that is no default for a whole network."""
    if not is_loopback(host) and not settings.users and settings.anonymous is not None:
        raise ConfigError(
            f"--host {host} lets other machines in, and no users are configured: give --settings FILE with users, or "
            "listen on 127.0.0.1"
        )


def _print_user(name: str) -> None:
    from gantrymq.console.passwords import hashed

    password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if len(password) < 8:
        fail("take a password with at least 8 characters", NAME, USAGE)
    typer.echo(
        f'[users."{name}"]\nrole = "viewer"  # viewer, operator or admin\npassword = "{hashed(password, SystemRng())}"'
    )


@contextlib.asynccontextmanager
async def _running(
    host: str, port: int, settings: ConsoleSettings, audit: Path, cert: Path | None, key: Path | None, name_servers: str
) -> AsyncIterator[str]:
    from gantrymq.console.app import opened

    secure = cert is not None or settings.behind_proxy
    async with opened(
        name_servers, settings, audit, SystemClock(), SystemRng(),
        only_local_names=is_loopback(host) and not settings.behind_proxy, secure_cookies=secure,
    ) as application, _listening(application, host, port, settings, cert, key) as listening_port:  # fmt: skip
        who = f"{len(settings.users)} user(s)" if settings.users else "read only, no users"
        if settings.broker_users:
            who = f"users of the brokers, and {len(settings.users)} of the console"
        scheme = "https" if cert is not None else "http"
        yield f"{scheme}://{address_of(host, listening_port)}{settings.root_path.text} ({who})"


@contextlib.asynccontextmanager
async def _listening(
    application: Starlette, host: str, port: int, settings: ConsoleSettings, cert: Path | None, key: Path | None
) -> AsyncIterator[int]:
    """Serve until the block ends; gives the port."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # ``run`` has the signals

    with _listener(host, port) as listener:
        server = Server(
            uvicorn.Config(
                application, log_config=None, access_log=False, server_header=False, lifespan="off",
                proxy_headers=settings.behind_proxy, timeout_graceful_shutdown=STOP_SECONDS,
                limit_concurrency=CONNECTIONS_MAX, ssl_certfile=cert, ssl_keyfile=key,
            )
        )  # fmt: skip
        serving = asyncio.create_task(server.serve([listener]))
        try:
            async with asyncio.timeout(START_SECONDS):
                while not server.started and not serving.done():
                    await asyncio.sleep(0.02)
            if serving.done():
                await serving  # raises what is in the way, e.g. a certificate that cannot be read
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await asyncio.wait({serving})


def _listener(host: str, port: int) -> socket.socket:
    """Raises Unreachable when the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = f"the console cannot listen there: {error.strerror or error}; is the port in use?"
        raise Unreachable(address_of(host, port), reason) from error
