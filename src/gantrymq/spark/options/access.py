"""How the clients of a query reach the cluster: namespace, time-outs, account and TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.options.values import Secret, duration_ms, truth

SECURITY_OPTIONS: Final = (
    "accessKey", "secretKey", "tls", "tlsTrustCertPath", "tlsCertPath", "tlsKeyPath", "tlsKeyPassword"
)  # fmt: skip
"""The options about account and TLS, which are the same for source and sink."""


@dataclass(frozen=True, slots=True)
class Access:
    """The settings that are passed to the client. Equal ones share a connection."""

    namespace: str | None = None
    request_timeout_ms: int | None = None
    """How long one request may take; None: the client's own defaults."""
    access_key: str | None = None
    secret_key: Secret | None = None
    tls: bool = False
    tls_trust_cert_path: str | None = None
    tls_cert_path: str | None = None
    tls_key_path: str | None = None
    tls_key_password: Secret | None = None

    def client_settings(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for a client whose settings are ``known``. Raises ConfigError for an account or TLS if
        this client has no such setting: a request must not be sent unsigned, or in clear, against the user's wish."""
        given: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("namespace", "request_timeout_ms") or not value:
                continue
            if field.name not in known:
                raise ConfigError(
                    f"the option {_option(field.name)} is set, but this client has no such setting; "
                    f"leave it out, and connect to a broker that asks for neither an account nor TLS"
                )
            given[field.name] = value.reveal() if isinstance(value, Secret) else value
        if self.namespace:
            given["namespace"] = self.namespace
        return given

    def timeouts(self) -> dict[str, int]:
        """The time-outs of a client that pulls."""
        timeout = self.request_timeout_ms
        return {} if timeout is None else {"call_timeout_ms": timeout, "pull_timeout_ms": timeout}


def access_of(options: Mapping[str, str]) -> Access:
    """The access in the options, under their main names. Raises ConfigError for half of an account."""
    if ("accessKey" in options) != ("secretKey" in options):
        raise ConfigError("give both accessKey and secretKey, or neither: one alone signs no request")
    return Access(
        namespace=options.get("namespace") or None,
        request_timeout_ms=duration_ms(options, "requestTimeout"),
        access_key=options.get("accessKey"),
        secret_key=_secret(options, "secretKey"),
        tls=truth(options, "tls", default=False),
        tls_trust_cert_path=options.get("tlsTrustCertPath"),
        tls_cert_path=options.get("tlsCertPath"),
        tls_key_path=options.get("tlsKeyPath"),
        tls_key_password=_secret(options, "tlsKeyPassword"),
    )


def _secret(options: Mapping[str, str], name: str) -> Secret | None:
    return Secret(options[name]) if options.get(name) else None


def _option(field: str) -> str:
    """The name of the option of a field."""
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
