"""The settings that a broker.conf and the command line give together."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any, Final

from gantrymq.broker.config import BrokerConfig, from_properties
from gantrymq.cli.serving.running import say
from gantrymq.errors import ConfigError
from gantrymq.nameserver.config import DEFAULT_PORT
from gantrymq.runtime.network import split_address

LOOPBACK: Final = "127.0.0.1"
OTHERS_READ: Final = 0o044
"""The bits of a mode that let others read a file."""


def settings_of(
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
    """``base``, overridden by the file, overridden by the command line."""
    settings = _read_config(config, base) if config is not None else base
    given: dict[str, Any] = {}
    if store is not None:
        given["store_path_root_dir"] = str(store.resolve())
    elif not settings.store.store_path_root_dir:
        given["store_path_root_dir"] = str(default_store.resolve())
    else:
        given["store_path_root_dir"] = str(Path(settings.store.store_path_root_dir).expanduser().resolve())
    if settings.store.store_path_commit_log:
        given["store_path_commit_log"] = str(Path(settings.store.store_path_commit_log).expanduser().resolve())
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
    return settings.replaced(**given)


def _read_config(path: Path, base: BrokerConfig) -> BrokerConfig:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    settings, unknown = from_properties(text, base)
    if unknown:
        say(f"warning: {path}: no effect, because unknown here: {', '.join(unknown)}")
    if settings.access.has_secrets and path.stat().st_mode & OTHERS_READ:
        say(f"warning: {path} holds secrets, and other users of this machine can read it: chmod 600 {path}")
    return settings


def name_server_port_of(wanted: int | None, settings: BrokerConfig) -> int:
    """The given port, else that of namesrvAddr, so that a broker.conf alone starts the same server again."""
    if wanted is not None:
        return wanted
    if not settings.network.name_servers:
        return DEFAULT_PORT
    return _split(settings.network.name_servers[0])[1]


def _split(address: str) -> tuple[str, int]:
    try:
        return split_address(address)
    except ValueError as error:
        raise ConfigError(f"namesrvAddr: {error}") from error


def check_name_server(address: str) -> None:
    """Refuse a name that cannot be resolved: it is a mistake, whereas a name server that is down may come back."""
    host, port = _split(address)
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"the name server {address} is unknown: {error.strerror}; check --namesrv-addr") from error


def check_single(store: Path) -> None:
    """Refuse the store of several brokers: their messages must not be ignored silently."""
    if (store / "broker-0" / "commitlog").exists() and not (store / "commitlog").exists():
        raise ConfigError(
            f"{store} holds the messages of several brokers; start with --brokers, or give another --store"
        )


def own_address() -> str:
    """The address by which other machines most likely reach this one. Finding it sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return LOOPBACK
