"""Reads certificates and keys from files, and makes of them what Python's ``ssl`` works with."""

from __future__ import annotations

import logging
import os
import ssl
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.runtime.tls.settings import ClientAuth, ClientTls, ServerTls

log = logging.getLogger("gantrymq.tls")

OLDEST: Final = ssl.TLSVersion.TLSv1_2
"""Older versions are broken. Java 8 and later speak this one."""
SPOKEN: Final = ["http/1.1", "h2"]
"""What clients of our servers may ask for by ALPN, in the order of preference. Clients of gRPC ask for h2 alone, and
end a connection without it. Browsers ask for both, and the HTTP door speaks the first one. Clients of remoting ask for
none.
"""
_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}


def client_context(settings: ClientTls) -> ssl.SSLContext:
    """The context of connections that this process opens. Raises ConfigError, which names the file that is wrong.

    The name of the server is compared with its certificate only where the authorities of the operating system are
    trusted. Brokers announce IP addresses, which certificates of a private authority rarely contain, and RocketMQ's
    clients do not compare them either.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = OLDEST
    context.check_hostname = settings.verify and not settings.trust_cert_path
    context.verify_mode = ssl.CERT_REQUIRED if settings.verify else ssl.CERT_NONE
    if settings.trust_cert_path:
        _trust(context, settings.trust_cert_path)
    elif settings.verify:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.cert_path:
        _show(context, settings.cert_path, settings.key_path, settings.key_password)
    return context


def _server_context(settings: ServerTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = OLDEST
    context.verify_mode = _VERIFY[settings.client_auth]
    # Tickets for later connections come unasked. A client that closes before it has read them resets the connection,
    # and the server loses what that client has sent last, such as the one-way end of a transaction.
    context.num_tickets = 0
    context.set_alpn_protocols(SPOKEN)
    if settings.trust_cert_path:
        _trust(context, settings.trust_cert_path)
    _show(context, settings.cert_path, settings.key_path, settings.key_password)
    return context


def _trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot read the trusted certificates in {path}: {_reason(error)}") from error


def _show(context: ssl.SSLContext, cert_path: str, key_path: str, password: str) -> None:
    asked: list[bool] = []

    def given() -> str:
        asked.append(True)
        return password

    try:
        context.load_cert_chain(cert_path, key_path, given)
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = _reason(error)
        if asked:
            reason = "its password is wrong" if password else "it is encrypted, and no password is given"
        for path in (cert_path, key_path):
            if not os.access(path, os.R_OK):
                raise ConfigError(f"cannot read {path}: it does not exist, or this user may not read it") from error
        raise ConfigError(f"cannot use the certificate {cert_path} with the key {key_path}: {reason}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error) or "this is no PEM file"


class ServerCertificates:
    """The certificate that a server shows. New files are used without a restart.

    Raises ConfigError when the files cannot be used at the start. Files that become unusable later are reported, and
    the certificate that was read before stays in use.
    """

    def __init__(self, settings: ServerTls) -> None:
        self._settings = settings
        self._paths = [path for path in (settings.cert_path, settings.key_path, settings.trust_cert_path) if path]
        self._stamps = self._now()
        self._context = _server_context(settings)

    def context(self) -> ssl.SSLContext:
        """The context for the next connection. Looks at the files, which costs little beside a handshake."""
        now = self._now()
        if now != self._stamps:
            self._stamps = now
            try:
                self._context = _server_context(self._settings)
            except ConfigError as error:
                log.error("the certificate that was read before stays in use: %s", error)
            else:
                log.warning("new certificates are in use, read from %s", ", ".join(self._paths))
        return self._context

    def _now(self) -> list[tuple[int, int]]:
        return [_stamp(path) for path in self._paths]


class ClientCertificates:
    """The context of connections that this process opens for as long as it runs. New files are used without a restart,
    because a certificate of a client ends, too.

    Raises ConfigError when the files cannot be used at the start. Files that become unusable later are reported, and
    what was read before stays in use. ``check_names``: whether the name of the server is always compared with its
    certificate, also where a private authority is trusted.
    """

    def __init__(self, settings: ClientTls, *, check_names: bool = False) -> None:
        self._settings = settings
        self._check_names = check_names
        self._paths = [path for path in (settings.cert_path, settings.key_path, settings.trust_cert_path) if path]
        self._stamps = [_stamp(path) for path in self._paths]
        self._context = self._made()

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        now = [_stamp(path) for path in self._paths]
        if now != self._stamps:
            self._stamps = now
            try:
                self._context = self._made()
            except ConfigError as error:
                log.error("the certificates that were read before stay in use: %s", error)
        return self._context

    def _made(self) -> ssl.SSLContext:
        context = client_context(self._settings)
        if self._check_names:
            context.check_hostname = self._settings.verify
        return context


def _stamp(path: str) -> tuple[int, int]:
    """What differs when a file was replaced or written; zeros when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino
