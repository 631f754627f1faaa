"""Servers that are there and never answer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from gantrymq.runtime.addresses import address_of


@contextlib.contextmanager
def accepts_and_never_answers() -> Iterator[str]:
    """The kernel accepts the connections; nobody reads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield address_of(*server.getsockname())


@contextlib.contextmanager
def drops_every_packet() -> Iterator[str]:
    """A port whose queue of connections is full: the kernel drops each further request to connect."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield address_of(*server.getsockname())


KINDS = {"accepts": accepts_and_never_answers, "drops": drops_every_packet}
