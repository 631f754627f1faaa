"""Checks that bytes on the wire are records of TLS, and a proxy that checks every byte of every connection.

| Size | Field of a record |
|---|---|
| 1 | type: 20 change of keys, 21 alert, 22 handshake, 23 data |
| 2 | version, 3.1 to 3.3 whatever both sides agreed on |
| 2 | number of bytes that follow, 16640 at most |

Source: RFC 8446, section 5.1; RFC 5246, section 6.2.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from typing import Final

TYPES: Final = {20: "change of keys", 21: "alert", 22: "handshake", 23: "data"}
LARGEST: Final = 16384 + 256
DATA: Final = 23
PIECE: Final = 65536


class NotTls(Exception):
    """Something else than a record was sent."""


class Records:
    """One direction of one connection."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self.counts: Counter[str] = Counter()
        self.size = 0
        """Bytes that were checked."""

    def feed(self, data: bytes) -> None:
        """Raises NotTls at the first byte that does not belong to a record."""
        self.size += len(data)
        rest = memoryview(data)
        while rest:
            if self._left:
                passed = min(self._left, len(rest))
                self._left -= passed
                rest = rest[passed:]
                continue
            wanted = 5 - len(self._head)
            self._head += bytes(rest[:wanted])
            rest = rest[wanted:]
            if len(self._head) == 5:
                self._begin()

    def _begin(self) -> None:
        kind, major, minor = self._head[:3]
        length = int.from_bytes(self._head[3:], "big")
        if kind not in TYPES or major != 3 or not 1 <= minor <= 3 or not 0 < length <= LARGEST:
            raise NotTls(f"{self._head!r} is no head of a record, after {self.size} bytes")
        self.counts[TYPES[kind]] += 1
        self._left = length
        self._head = b""


class CheckingProxy:
    """Passes on what comes to ``listen``, both ways, and checks it. It uses threads, so that it is on no event loop."""

    def __init__(self, listen: tuple[str, int], behind: tuple[str, int]) -> None:
        self._behind = behind
        self._listener = socket.create_server(listen)
        self._sockets: list[socket.socket] = []
        self.sent: Counter[str] = Counter()
        """Records of clients, by type."""
        self.answered: Counter[str] = Counter()
        """Records of the server."""
        self.connections = 0
        self.problems: list[str] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._behind)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
                self.connections += 1
            for source, target, counts in ((client, server, self.sent), (server, client, self.answered)):
                threading.Thread(target=self._pass, args=(source, target, counts), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counts: Counter[str]) -> None:
        records = Records()
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE):
                try:
                    records.feed(data)
                except NotTls as problem:
                    self.problems.append(str(problem))
                    break
                target.sendall(data)
        with self._lock:
            counts.update(records.counts)
        for each in (source, target):  # an end of one direction is the end of the connection, as RocketMQ's peers do it
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        for each in self._sockets:
            each.close()
