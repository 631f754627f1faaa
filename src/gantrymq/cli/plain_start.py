"""Starts a server from a simple command line without loading Typer.

Typer, and pydantic, which it loads, took a third of the time of a broker's start and 13 MB of its 44 MB. Of a name
server's start they took three quarters and 17 MB, together with the broker's modules. A command line is simple when it
consists of ``--option value`` or ``--option=value`` with options of the table and values that need no checking. All
others, including mistakes and ``--help``, are left to ``cli.commands``. A test holds that both understand the same.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

Options = dict[str, tuple[str, type]]
"""Option as it is written, to the name of the parameter and the type of its value."""

_DIGITS_MAX: Final = 9

_BOTH: Final[Options] = {
    "--config": ("config", Path),
    "-c": ("config", Path),
    "--store": ("store", Path),
    "--listen-port": ("listen_port", int),
    "--host": ("host", str),
    "--flush": ("flush", str),
    "--http-port": ("http_port", int),
    "--grpc-port": ("grpc_port", int),
    "--broker-name": ("broker_name", str),
    "--tls-config": ("tls_config", Path),
    "--log-level": ("log_level", str),
}
OPTIONS: Final[dict[str, Options]] = {
    "server": {
        **_BOTH,
        "--name-server-port": ("name_server_port", int),
        "--namesrv-port": ("name_server_port", int),
        "--name-server-http-port": ("name_server_http_port", int),
        "--brokers": ("brokers", int),
        "--replicas": ("replicas", int),
    },
    "nameserver": {
        "--config": ("config", Path),
        "-c": ("config", Path),
        "--listen-port": ("listen_port", int),
        "-p": ("listen_port", int),
        "--host": ("host", str),
        "--kv-config": ("kv_config", Path),
        "--tls-config": ("tls_config", Path),
        "--http-port": ("http_port", int),
        "--http-bind": ("http_bind", str),
        "--log-level": ("log_level", str),
    },
    "broker": {
        **_BOTH,
        "--namesrv-addr": ("namesrv_addr", str),
        "-n": ("namesrv_addr", str),
        "--bind": ("bind", str),
    },
    "proxy": {
        "--name-servers": ("name_servers", str),
        "-n": ("name_servers", str),
        "--grpc-port": ("grpc_port", int),
        "--bind": ("bind", str),
        "--host": ("host", str),
        "--tls-config": ("tls_config", Path),
        "--http-port": ("http_port", int),
        "--http-bind": ("http_bind", str),
        "--log-level": ("log_level", str),
    },
}
"""By command: the same options as in ``cli.serve``."""


def plain_start(words: Sequence[str]) -> Callable[[], None] | None:
    """The function to call, or None: the command line is not simple."""
    if not words or words[0] not in OPTIONS:
        return None
    given = plain_values(OPTIONS[words[0]], words[1:])
    if given is None:
        return None
    # A name server needs nothing of a broker, which would double its memory.
    module = importlib.import_module(f"gantrymq.cli.serving.{words[0]}")
    return partial(getattr(module, words[0]), **given)


def plain_values(options: Options, words: Sequence[str]) -> dict[str, Any] | None:
    """Parameters and their values; the last value when an option is repeated. None when the line is not simple."""
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        if option not in options or (equals and not option.startswith("--")):
            return None
        if not equals:
            text = next(rest, "")
        name, kind = options[option]
        if not text or text.startswith("-") or (kind is int and not _is_plain_number(text)):
            return None
        given[name] = kind(text)
    return given


def _is_plain_number(text: str) -> bool:
    digits = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return digits and (text == "0" or text[0] != "0")
