"""What the start of a server says when other machines reach it, and nothing keeps strangers away. Pure.

The defaults stay RocketMQ's: a broker and a name server listen on all addresses. So the start says what that means.
"""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.runtime.addresses import is_loopback


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that a program listens on."""

    what: str
    """``broker``, ``name server``, ..."""
    host: str
    """The address that it is bound to."""
    has_users: bool
    """Whether it asks who sends a request."""
    users_remedy: str
    """How it gets users, as a command to a person."""
    local_remedy: str
    """How it listens on this machine only."""
    takes_passwords: bool = False
    """Whether people or programs send it passwords. Clients of a broker sign, and send none."""
    only_tls: bool = False
    """Whether it takes no connection without TLS."""
    tls_remedy: str = ""
    """How it gets TLS."""


def warning_of(listening: Listening) -> str | None:
    """What others may do there, and what to do against it; None when there is nothing to say."""
    if is_loopback(listening.host):
        return None
    where = f"warning: the {listening.what} listens on {listening.host}"
    if not listening.has_users:
        return (
            f"{where} and has no users: everybody who can connect may do there whatever it does. "
            f"{listening.users_remedy}, or {listening.local_remedy}"
        )
    if listening.takes_passwords and not listening.only_tls:
        return (
            f"{where} without TLS: everybody who can read the network reads the passwords. "
            f"{listening.tls_remedy}, or {listening.local_remedy}"
        )
    return None


def of_broker(host: str, has_users: bool) -> Listening:
    """The remoting port of a broker."""
    return Listening(
        "broker", host, has_users, "Set authenticationEnabled and authorizationEnabled (docs/permissions.md)",
        "listen on this machine only: --bind 127.0.0.1",
    )  # fmt: skip


def of_name_server(host: str, has_users: bool) -> Listening:
    """The remoting port of a name server."""
    return Listening(
        "name server", host, has_users, "Set authenticationEnabled and authorizationEnabled (docs/permissions.md)",
        "listen on this machine only: --host 127.0.0.1",
    )  # fmt: skip


def of_proxy(host: str, has_users: bool) -> Listening:
    """The gRPC port of a proxy."""
    return Listening(
        "proxy", host, has_users, "Give brokers and proxy users (docs/permissions.md)",
        "listen on this machine only: --bind 127.0.0.1",
    )  # fmt: skip


def of_http(what: str, host: str, has_users: bool, setting: str, *, only_tls: bool) -> Listening:
    """An HTTP endpoint. ``setting``: how its address is set."""
    return Listening(
        f"HTTP endpoint of the {what}", host, has_users, "Give the server users (docs/permissions.md)",
        f"listen on this machine only: {setting}", True, only_tls, "Set tls.server.mode=enforcing (docs/security.md)",
    )  # fmt: skip


def of_console(host: str, has_users: bool, *, only_tls: bool) -> Listening:
    """The pages of the console."""
    return Listening(
        "console", host, has_users, "Give --settings FILE with users (docs/console.md)",
        "listen on this machine only: --host 127.0.0.1", True, only_tls,
        "Give --tls-cert and --tls-key, or put it behind a proxy with TLS and set behind_proxy (docs/console.md)",
    )  # fmt: skip
