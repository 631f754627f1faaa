"""How the clients of a query reach the cluster: namespace, time-outs, account and TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.options.option import Option, first_options, options_of, setting, values_in
from gantrymq.spark.options.values import Secret, duration_ms, secret, text, text_or_none, truth

NAME_SERVERS: Final = Option(
    "nameServers",
    "addresses of the name servers, separated by `;` or `,`; required",
    aliases=(
        "nameServer",
        "name.servers",
        "rocketmq.name.servers",
        "rocketmq.nameServer",
        "rocketmq.client.endpoints",
    ),
    kafka=("kafka.bootstrap.servers",),
)
PER_PROCESS: Final = "each worker process keeps one connection per cluster for its life, so there is no pool to limit"
ENCRYPTED: Final = "`tls` and the options that begin with it"
SIGNED: Final = "RocketMQ signs each request with a key: `accessKey`, `secretKey`"


@dataclass(frozen=True, slots=True)
class Access:
    """The settings that are passed to the client. Equal ones share a connection."""

    namespace: str | None = setting(
        text_or_none,
        Option(
            "namespace",
            "put before topics and groups on the wire (`namespace%topic`) and taken off again",
            aliases=("rocketmq.client.namespace",),
        ),
    )
    request_timeout_ms: int | None = setting(
        duration_ms,
        Option(
            "requestTimeout",
            "how long one request to a broker may take before it counts as failed",
            default="3s, and 30s for a pull",
            aliases=("pullTimeoutMs", "pullTimeout"),
            kafka=("kafkaConsumer.pollTimeoutMs",),
        ),
        otherwise=None,
    )
    """How long one request may take; None: the client's own defaults."""
    access_key: str | None = setting(
        text,
        Option(
            "accessKey", "name of the account with which requests are signed", aliases=("rocketmq.client.accessKey",)
        ),
    )
    secret_key: Secret | None = setting(
        secret,
        Option(
            "secretKey",
            "password of the account with which requests are signed",
            aliases=("rocketmq.client.secretKey",),
            secret=True,
        ),
    )
    tls: bool = setting(
        truth,
        Option(
            "tls",
            "`true`: connect with TLS",
            default="false",
            aliases=("tls.enable", "rocketmq.client.tls.enable"),
        ),
    )
    tls_trust_cert_path: str | None = setting(
        text,
        Option(
            "tlsTrustCertPath",
            "file with the certificates that are trusted, on every executor",
            aliases=("tls.client.trustCertPath",),
        ),
    )
    tls_cert_path: str | None = setting(
        text,
        Option(
            "tlsCertPath", "file with the client's certificate, on every executor", aliases=("tls.client.certPath",)
        ),
    )
    tls_key_path: str | None = setting(
        text, Option("tlsKeyPath", "file with the client's key, on every executor", aliases=("tls.client.keyPath",))
    )
    tls_key_password: Secret | None = setting(
        secret, Option("tlsKeyPassword", "password of that key", aliases=("tls.client.keyPassword",), secret=True)
    )

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
                    f"the option {first_options(Access)[field.name].name} is set, but this client has no such setting; "
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


def access_in(options: Mapping[str, str], name: str = "") -> Access:
    """The access in the options, under their main names. Raises ConfigError for half of an account."""
    if ("accessKey" in options) != ("secretKey" in options):
        raise ConfigError("give both accessKey and secretKey, or neither: one alone signs no request")
    return Access(**values_in(options, Access))


SECURITY: Final = tuple(option for option in options_of(Access) if option.name not in ("namespace", "requestTimeout"))
"""The options about account and TLS, which are the same for source and sink."""
