"""A connection to a database that is cut at a chosen moment: before a COMMIT arrives, or before its answer does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Literal, Self

Moment = Literal["before", "after"]


class CuttingProxy:
    """Passes everything on to a port of 127.0.0.1, until ``cut`` says otherwise. For any database and driver.

    The first COMMIT after ``cut("before")`` never reaches the database. That after ``cut("after")`` does, and its
    answer does not reach the client.
    """

    def __init__(self, to_port: int) -> None:
        self._to = ("127.0.0.1", to_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._moment: Moment | None = None
        self.cuts = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, moment: Moment) -> None:
        self._moment = moment

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in [self._listener, *self._sockets]:
            _shut(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                self._sockets += [client, server]
                threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        silent = threading.Event()
        threading.Thread(target=self._to_client, args=(server, client, silent), daemon=True).start()
        with _ends_both(client, server):
            while data := client.recv(65536):
                moment = self._moment
                if moment is not None and b"COMMIT" in data:
                    self._moment = None
                    self.cuts += 1
                    if moment == "before":
                        return
                    silent.set()
                server.sendall(data)

    def _to_client(self, server: socket.socket, client: socket.socket, silent: threading.Event) -> None:
        with _ends_both(client, server):
            while data := server.recv(65536):
                if silent.is_set():  # the database has answered, so it has committed
                    return
                client.sendall(data)


@contextmanager
def _ends_both(*sockets: socket.socket) -> Iterator[None]:
    with suppress(OSError):
        yield
    for each in sockets:
        _shut(each)


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
