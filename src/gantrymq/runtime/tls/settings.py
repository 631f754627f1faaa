"""What one side of a TLS connection is configured with. Source: RocketMQ's TlsSystemConfig and TlsMode."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gantrymq.errors import ConfigError

ENVIRONMENT: Final = "GANTRY_TLS_CONFIG"
"""The environment variable with the path of a file of settings, for servers and clients that are given no other."""


class TlsMode(StrEnum):
    """Which connections a server accepts on a port (``tls.server.mode``)."""

    DISABLED = "disabled"
    """Only plain ones."""
    PERMISSIVE = "permissive"
    """Both kinds; the first byte of a connection says which it is."""
    ENFORCING = "enforcing"
    """Only TLS."""


class ClientAuth(StrEnum):
    """Whether clients show certificates (``tls.server.need.client.auth``)."""

    NONE = "none"
    OPTIONAL = "optional"
    """A client may have none. One that it shows must be valid."""
    REQUIRE = "require"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """TLS of a listening address. The paths are those of PEM files. Raises ConfigError for half a configuration."""

    mode: TlsMode = TlsMode.PERMISSIVE
    cert_path: str = ""
    """``tls.server.certPath``: the certificate, and behind it those that lead to its authority."""
    key_path: str = ""
    """``tls.server.keyPath``: its private key."""
    key_password: str = field(default="", repr=False)
    """``tls.server.keyPassword``; empty: the key is not encrypted."""
    client_auth: ClientAuth = ClientAuth.NONE
    trust_cert_path: str = ""
    """``tls.server.trustCertPath``: the authorities whose clients are let in."""

    def __post_init__(self) -> None:
        if self.mode is not TlsMode.DISABLED and not (self.cert_path and self.key_path):
            raise ConfigError(
                f"tls.server.mode is {self.mode}, so a server needs a certificate: set tls.server.certPath and "
                "tls.server.keyPath, or set tls.server.mode=disabled"
            )
        if self.client_auth is not ClientAuth.NONE and not self.trust_cert_path:
            raise ConfigError(
                f"tls.server.need.client.auth is {self.client_auth}: set tls.server.trustCertPath to the file with "
                "the certificate of the authority that signs your clients' certificates"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """TLS of connections that this side opens. The paths are those of PEM files. Raises ConfigError for a certificate
    without its key, and the other way round."""

    trust_cert_path: str = ""
    """``tls.client.trustCertPath``: the authorities that are trusted; empty: those of the operating system."""
    cert_path: str = ""
    """``tls.client.certPath``: a certificate of this client, for servers that ask for one."""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    verify: bool = True
    """``tls.client.authServer``: False accepts any certificate, so anybody on the way can read and change all."""

    def __post_init__(self) -> None:
        if bool(self.cert_path) != bool(self.key_path):
            given, missing = ("certificate", "key") if self.cert_path else ("key", "certificate")
            raise ConfigError(f"the {given} of a TLS client is given without its {missing}; give both, or neither")
