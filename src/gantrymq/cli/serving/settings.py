"""The settings that a broker.conf and the command line give together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gantrymq.broker.config import BrokerConfig, from_properties
from gantrymq.cli.serving.running import say
from gantrymq.errors import ConfigError
from gantrymq.nameserver.config import DEFAULT_PORT
from gantrymq.runtime.addresses import LOOPBACK, split_address
from gantrymq.runtime.guesses.directories import expanded
from gantrymq.runtime.guesses.own_address import numeric_address, own_address

OTHERS_READ: Final = 0o044
"""The bits of a mode that let others read a file."""


def settings_of(
    config: Path | None,
    store: Path | None,
    listen_port: int | None,
    flush: str | None,
    broker_name: str | None,
    http_port: int | None,
    grpc_port: int | None,
    *,
    default_store: Callable[[], Path],
    base: BrokerConfig,
) -> BrokerConfig:
    """``base``, overridden by the file, overridden by the command line."""
    settings = _read_config(config, base) if config is not None else base
    given: dict[str, Any] = {}
    if store is not None:
        given["store_path_root_dir"] = str(store.resolve())
    elif not settings.store.store_path_root_dir:
        given["store_path_root_dir"] = str(default_store().resolve())
    else:
        given["store_path_root_dir"] = str(
            expanded(Path(settings.store.store_path_root_dir), "storePathRootDir").resolve()
        )
    if settings.store.store_path_commit_log:
        given["store_path_commit_log"] = str(
            expanded(Path(settings.store.store_path_commit_log), "storePathCommitLog").resolve()
        )
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
    if grpc_port is not None:
        given["grpc_port"] = grpc_port
    return settings.replaced(**given)


def _read_config(path: Path, base: BrokerConfig) -> BrokerConfig:
    try:
        text = path.read_text("utf-8")
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
    """Refuse what is not an address. A name that cannot be resolved is no reason to refuse: the name server of a
    container gets its name when it starts, which may be after this broker. The registration warns and tries again."""
    _split(address)


def check_single(store: Path) -> None:
    """Refuse the store of several brokers: their messages must not be ignored silently."""
    if (store / "broker-0" / "commitlog").exists() and not (store / "commitlog").exists():
        raise ConfigError(
            f"{store} holds the messages of several brokers; start with --brokers, or give another --store"
        )


def numeric_ip(known_as: str) -> str:
    """The IP address for records and message ids, where clients are given ``known_as``: an address or a name.

    A name that has no address yet must not keep a broker from starting: in Kubernetes a name gets its address only when
    the program behind it is ready.
    """
    found = numeric_address(known_as)
    if found is None:
        found = own_address() or LOOPBACK
        say(
            f"warning: brokerIP1 is {known_as}, and this name has no address here yet. Clients are given the name, and "
            f"message ids contain {found}; if clients cannot connect, correct brokerIP1"
        )
    return found
