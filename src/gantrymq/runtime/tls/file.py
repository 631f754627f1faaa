"""Reads a file of TLS settings, with RocketMQ's keys (``tls.properties``). Source: TlsHelper, TlsSystemConfig."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from gantrymq.errors import ConfigError
from gantrymq.runtime.properties import parse_properties
from gantrymq.runtime.tls.settings import ClientAuth, ClientTls, ServerTls, TlsMode

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class TlsFile:
    """What the file says. ``server`` is None without a certificate for a server, ``client`` without tls.enable=true."""

    server: ServerTls | None = None
    client: ClientTls | None = None


def _text(value: str) -> str:
    return value


def _switch(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return value.lower() == "true"


def _one_of(kind: type[E]) -> Callable[[str], E]:
    def read(value: str) -> E:
        try:
            return kind(value.lower())
        except ValueError:
            raise ValueError("write " + ", ".join(kind)) from None

    return read


_SERVER: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "tls.server.mode": ("mode", _one_of(TlsMode)),
    "tls.server.certPath": ("cert_path", _text),
    "tls.server.keyPath": ("key_path", _text),
    "tls.server.keyPassword": ("key_password", _text),
    "tls.server.need.client.auth": ("client_auth", _one_of(ClientAuth)),
    "tls.server.trustCertPath": ("trust_cert_path", _text),
}
"""By key: field of ServerTls, and what reads its value."""
_CLIENT: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "tls.client.certPath": ("cert_path", _text),
    "tls.client.keyPath": ("key_path", _text),
    "tls.client.keyPassword": ("key_password", _text),
    "tls.client.trustCertPath": ("trust_cert_path", _text),
    "tls.client.authServer": ("verify", _switch),
}
"""The same for ClientTls."""
ENABLE: Final = "tls.enable"
"""Whether connections that this side opens have TLS; default: no, as in RocketMQ."""
NO_EFFECT: Final = frozenset(
    {"tls.test.mode.enable", "tls.server.authClient", "tls.config.file", "tls.ciphers", "tls.protocols"}
)
"""Keys of RocketMQ that change nothing here. Its test mode makes a certificate that nobody can verify; certificates of
clients are always verified; Python chooses versions and ciphers."""


def read_tls_file(path: Path) -> TlsFile:
    """Raises ConfigError, which names the file and the key, when it cannot be used."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the TLS settings in {path}: {error}") from error
    return tls_file_of(parse_properties(text), str(path))


def tls_file_of(values: Mapping[str, str], path: str) -> TlsFile:
    """The settings of the keys and values of one file, whose path is for the errors."""
    server: dict[str, Any] = {}
    client: dict[str, Any] = {}
    enabled = False
    for key, value in values.items():
        try:
            if key in _SERVER:
                field, read = _SERVER[key]
                server[field] = read(value)
            elif key in _CLIENT:
                field, read = _CLIENT[key]
                client[field] = read(value)
            elif key == ENABLE:
                enabled = _switch(value)
            elif key not in NO_EFFECT:
                raise ConfigError(f"{path}: {key} is not known{_similar(key)}")
        except ValueError as error:
            raise ConfigError(f"{path}: {key} is {value!r}; {error}") from error
    try:
        return TlsFile(ServerTls(**server) if server else None, ClientTls(**client) if enabled else None)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _similar(key: str) -> str:
    known = [*_SERVER, *_CLIENT, ENABLE]
    close = difflib.get_close_matches(key, known, 1)
    return f"; did you mean {close[0]}?" if close else "; the keys are " + ", ".join(known)
