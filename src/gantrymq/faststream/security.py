"""FastStream's security objects as settings of clients."""

from __future__ import annotations

from typing import Any

from faststream.security import BaseSecurity, SASLPlaintext

from gantrymq.errors import ConfigError


def settings_of_security(security: BaseSecurity | None) -> dict[str, Any]:
    """Raises ConfigError for what RocketMQ does not know."""
    if security is None:
        return {}
    settings: dict[str, Any] = {}
    if isinstance(security, SASLPlaintext):
        settings = {"access_key": security.username, "secret_key": security.password}
    elif type(security) is not BaseSecurity:
        raise ConfigError(
            f"{type(security).__name__} is not a valid security for RocketMQ; use SASLPlaintext(username, password) "
            "for access key and secret key, or BaseSecurity for TLS alone"
        )
    if security.use_ssl or security.ssl_context is not None:
        if security.ssl_context is not None:
            raise ConfigError(
                "ssl_context is not supported: give use_ssl=True, and the files by tls_trust_cert_path ..."
            )
        settings["tls"] = True
    return settings
