"""TCP connections. All network traffic goes through ``Network``, which asyncio or a simulation implements.

Received bytes are passed to callbacks, and sent with ``Link.write``. The interface has callbacks instead of streams,
because one ``received`` call passes on everything that one read returned. So a receiver can decode, execute and answer
a whole batch of frames with one ``write``.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, cast

from gantrymq.errors import Unreachable
from gantrymq.runtime.addresses import ANY, EVERYWHERE, address_of, numeric
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.first_success import first_success

HIGH_WATER_BYTES = 4 * 1024 * 1024
"""When more bytes of one link are unsent, its receiver is told to pause, because a slow peer must not fill the memory.
"""
BACKLOG: Final = 1024
"""Connections that wait to be accepted."""
NEXT_ADDRESS_S: Final = 0.25
"""How long one address of a name is tried before the next one is tried as well. Source: RFC 8305, section 5."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Link(Protocol):
    """One connection, as the code that sends sees it."""

    peer: str
    """``ip:port`` of the other side."""
    local: str
    """``ip:port`` of this side."""

    def write(self, data: bytes) -> None:
        """Queue bytes; never blocks. After the connection is lost this does nothing."""

    def close(self) -> None:
        """Send the queued bytes, then close the connection."""

    def abort(self) -> None:
        """Close at once; queued bytes are dropped."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def unsent(self) -> int:
        """Bytes that were queued and that the operating system has not taken yet, because the peer does not read."""


class Receiver(Protocol):
    """One connection, as the code that receives sees it: the methods are callbacks."""

    def connected(self, link: Link) -> None: ...

    def received(self, data: bytes) -> None:
        """Called with all bytes of one read. Must not raise."""

    def lost(self, reason: str) -> None:
        """Called exactly once, whichever side closed the link."""

    def pause_writing(self) -> None:
        """Called when more than HIGH_WATER_BYTES are unsent."""

    def resume_writing(self) -> None: ...


class Listener(Protocol):
    address: str
    """The ``ip:port`` on which it listens (the caller may have asked for port 0, any free port)."""

    async def close(self) -> None:
        """Accept no further connections. Existing links stay open."""


class Gate(Protocol):
    """Decides which connections a listening address accepts. It is asked before anything else is done for them."""

    def admit(self, peer: str) -> bool:
        """Whether to accept a connection from ``ip:port``. If not, it is closed, and no receiver is made."""

    def release(self, peer: str) -> None:
        """A connection that was admitted has ended. Called exactly once."""

    def failed(self, peer: str, reason: str) -> None:
        """A connection that was admitted ends, because the two sides did not agree on TLS."""


class Network(Protocol):
    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        """Accept connections. Raises Unreachable, which names the port, when it is in use."""

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        """Open a connection, or raise Unreachable. ``receiver.connected`` is called before this returns."""


class _AsyncioLink(asyncio.Protocol):
    """Connects an asyncio transport with a Receiver."""

    __slots__ = ("_accept", "_fd", "_gate", "_receiver", "_transport", "local", "peer")

    def __init__(self, accept: Callable[[], Receiver], gate: Gate | None = None) -> None:
        """``accept``: makes the receiver, when the gate has admitted the connection."""
        self._accept = accept
        self._gate = gate
        self._receiver: Receiver = _REFUSED
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self.peer = ""
        self.local = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            self._fd = raw.fileno()
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = _named(transport.get_extra_info("peername"))
        self.local = _named(transport.get_extra_info("sockname"))
        if self._gate is not None and not self._gate.admit(self.peer):
            self._gate = None
            self.abort()
            return
        self._receiver = self._accept()
        self._receiver.connected(self)

    def data_received(self, data: bytes) -> None:
        self._receiver.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._gate is not None:
            self._gate.release(self.peer)
        self._receiver.lost(str(exc) if exc else "closed")

    def pause_writing(self) -> None:
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._receiver.resume_writing()

    def write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        # A transport of uvloop keeps data until the turn of the event loop ends. Writing to the socket directly lets
        # the peer begin during the rest of the turn. Only what the kernel does not accept goes to the transport.
        if self._fd >= 0 and transport.get_write_buffer_size() == 0 and not transport.is_closing():
            try:
                sent = os.write(self._fd, data)
            except (BrokenPipeError, ConnectionResetError):
                # The peer is gone, but the kernel may still have unread data of it, such as the one-way ends and
                # offsets that a client sends when it closes. A transport that fails to write drops this data. So
                # nothing more is written; reading continues to the end of the data, and then the link is lost.
                transport.resume_reading()
                return
            except OSError:
                sent = 0  # the socket buffer is full
            if sent == len(data):
                return
            transport.write(memoryview(data)[sent:])
        else:
            transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    @property
    def unsent(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()


class _Refused:
    """The receiver of a connection that was not admitted."""

    def connected(self, link: Link) -> None: ...

    def received(self, data: bytes) -> None: ...

    def lost(self, reason: str) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


_REFUSED: Final = _Refused()


def _named(sockname: object) -> str:
    if isinstance(sockname, tuple) and len(sockname) >= 2:
        return address_of(str(sockname[0]).removeprefix("::ffff:"), int(sockname[1]))
    return "?"


class _AsyncioListener:
    __slots__ = ("_server", "address")

    def __init__(self, server: asyncio.Server, host: str) -> None:
        self._server = server
        name = server.sockets[0].getsockname()
        self.address = address_of(host, name[1]) if host in EVERYWHERE else _named(name)

    async def close(self) -> None:
        self._server.close()


def _everywhere(host: str, port: int) -> socket.socket:
    """A socket that accepts connections to every address of this machine, of both families where it has both."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
        except OSError as error:
            # The kernel has no IPv6: it was started so, or the container has it turned off.
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) or host != ANY:
                raise
    return socket.create_server((host, port), backlog=BACKLOG)


_SocketPlace = tuple[int, tuple[Any, ...]]
"""The family of an address, and what ``connect`` takes."""


async def _places(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[_SocketPlace]:
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((int(family), place) for family, _, _, _, place in found))


async def _connected(loop: asyncio.AbstractEventLoop, places: list[_SocketPlace]) -> socket.socket:
    """A connection to the first address of a name that answers. Some of them may be silent."""
    attempts = [partial(_connect_to, loop, family, place) for family, place in places]
    return (await first_success(SystemClock(), attempts, NEXT_ADDRESS_S, drop=socket.socket.close))[1]


async def _connect_to(loop: asyncio.AbstractEventLoop, family: int, place: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, place)
    except BaseException:
        sock.close()
        raise
    return sock


_LISTEN_ADVICE: Final = {
    errno.EMFILE: "raise the limit of open files (ulimit -n, LimitNOFILE of a service)",
    errno.ENFILE: "raise the limit of open files of this machine (fs.file-max)",
    errno.EACCES: "this user may not listen on that port; take one over 1023",
    errno.EADDRNOTAVAIL: "this machine does not have the address",
}
"""What to do, by the reason; the usual one is a port that is in use."""


class TcpNetwork:
    """TCP by the running asyncio loop."""

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        loop = asyncio.get_running_loop()

        def made() -> _AsyncioLink:
            return _AsyncioLink(accept, gate)

        try:
            # It is here before anything waits: to cancel ``create_server`` would leave a server that nobody can close.
            if host in EVERYWHERE:
                sock = _everywhere(host, port)
                server = await loop.create_server(made, sock=sock, backlog=BACKLOG, start_serving=False)
            else:
                server = await loop.create_server(made, host, port, backlog=BACKLOG, start_serving=False)
            try:
                await server.start_serving()
            except BaseException:
                server.close()
                raise
        except OSError as error:
            advice = _LISTEN_ADVICE.get(error.errno or 0, "is another server running?")
            raise Unreachable(
                address_of(host, port), f"cannot listen there ({error.strerror or error}); {advice}"
            ) from error
        return _AsyncioListener(server, host)

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        loop = asyncio.get_running_loop()

        def made() -> _AsyncioLink:
            return _AsyncioLink(lambda: receiver)

        try:
            async with asyncio.timeout(timeout_s):
                found = [] if numeric(host) is not None else await _places(loop, host, port)
                if len(found) > 1:
                    sock = await _connected(loop, found)
                    transport, link = await loop.create_connection(made, sock=sock)
                else:
                    transport, link = await loop.create_connection(made, host, port)
        except TimeoutError as error:
            raise Unreachable(address_of(host, port), f"no connection within {timeout_s:g} s") from error
        except OSError as error:
            raise Unreachable(address_of(host, port), error.strerror or str(error)) from error
        if link.local == link.peer:
            # If no server listens on a port of the ephemeral range, the kernel may give this port to the connecting
            # socket, which is then connected to itself and prevents the server from starting. The connection is reset
            # instead of closed, because a closed connection would hold the port for another minute.
            if (raw := transport.get_extra_info("socket")) is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            link.abort()
            raise Unreachable(address_of(host, port), "nobody listens there")
        return link
