"""Where Spark runs, by the text of ``run.master`` or ``--master``, and whether somebody answers there.

Spark itself tries a master that is not there for a minute, and a server of Spark Connect for ten.
"""

from __future__ import annotations

import re
import socket
from typing import Final

from gantrymq.errors import ConfigError, Unreachable
from gantrymq.runtime.addresses import address_of, split_address

CONNECT_TIMEOUT_S: Final = 5.0
STANDALONE, CONNECT = "spark://", "sc://"
DEFAULT_PORTS: Final = {STANDALONE: None, CONNECT: 15002}
EXAMPLES: Final = {STANDALONE: "spark://127.0.0.1:7077", CONNECT: "sc://127.0.0.1:15002"}
SERVERS: Final = {STANDALONE: "the master of the Standalone cluster", CONNECT: "the server of Spark Connect"}
_OTHERS: Final = re.compile(r"local(\[[^]]+\])?|local-cluster\[[^]]+\]|yarn|k8s://.+")


def check_master(master: str) -> None:
    """Raise ConfigError when Spark has no such master, and Unreachable when nobody listens at its address."""
    kind = next((one for one in EXAMPLES if master.startswith(one)), None)
    if kind is not None:
        check_answers(kind, master)
    elif not _OTHERS.fullmatch(master):
        known = ", ".join(["local[*]", *EXAMPLES.values(), "yarn", "k8s://127.0.0.1:6443"])
        raise ConfigError(f"{master!r} is no master of Spark; write for example {known}")


def check_answers(kind: str, master: str) -> None:
    """Raise Unreachable when no server listens there. A Standalone cluster has one or more, separated by ``,``."""
    refused: Unreachable | None = None
    for host, port in addresses(kind, master):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            refused = Unreachable(address_of(host, port), f"{error.strerror or error}; start {SERVERS[kind]} there")
    if refused is not None:
        raise refused


def addresses(kind: str, master: str) -> list[tuple[str, int]]:
    """The hosts and ports in a master of this kind. Raises ConfigError when it has none."""
    servers = re.split(r"[/;?]", master.removeprefix(kind), maxsplit=1)[0]
    found = []
    for server in servers.split(","):
        default = DEFAULT_PORTS[kind]
        without_port = ":" not in server or server.endswith("]")
        try:
            host, port = split_address(address_of(server, default) if without_port and default is not None else server)
        except ValueError:
            host, port = "", 0
        if not port:
            raise ConfigError(f"the master is {master!r}; write it as {EXAMPLES[kind]}")
        found.append((host, port))
    return found
