"""The network of a broker that is measured without sockets."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.runtime.network import Gate, Link, Listener, Receiver


class _Nowhere:
    address = "127.0.0.1:10911"

    async def close(self) -> None: ...


class NoNetwork:
    """Stores the functions that accept connections, and opens none by itself."""

    accept: Callable[[], Receiver]
    """The newest one."""

    def __init__(self) -> None:
        self.accepts: dict[int, Callable[[], Receiver]] = {}
        """By port."""

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        self.accept = self.accepts[port] = accept
        return _Nowhere()

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        raise NotImplementedError("a broker without a name server calls nobody")


class Wire:
    """A link that collects the bytes that are written to it."""

    peer = "127.0.0.1:5555"
    local = "127.0.0.1:10911"
    unsent = 0

    def __init__(self) -> None:
        self.out: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.out.append(data)

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...
