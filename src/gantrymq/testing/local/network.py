"""Connections without sockets: what one side writes, the other side's loop is given, in the same process.

A connection may join two event loops, each in a thread of its own: the broker is on the cluster's loop, asyncio clients
are on the loop of the test.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.errors import Unreachable, UsedAfterFork
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.network import Gate, Link, Listener, Receiver
from gantrymq.testing.local.node import Node

HOST: Final = "127.0.0.1"
NAME_SERVER_PORT: Final = 9876
BROKER_PORT: Final = 10911
FIRST_FREE_PORT: Final = 40_000
CLOSED: Final = "closed"


@dataclass(eq=False)
class _Accepting:
    """A server that listens."""

    network: LocalNetwork
    node: Node
    port: int
    accept: Callable[[], Receiver]
    address: str
    gate: Gate | None

    async def close(self) -> None:
        self.network.servers.pop(self.port, None)


class LocalNetwork:
    """All servers and connections of one cluster.

    ``name_servers``: what clients may give as the address of a name server; None: any address that is not a broker's.
    """

    def __init__(self, name_servers: Collection[str] | None, stirred: Callable[[], None]) -> None:
        """``stirred``: told of everything that crosses to another loop."""
        self.servers: dict[int, _Accepting] = {}
        self.ends: set[End] = set()
        self.loops: set[asyncio.AbstractEventLoop] = set()
        """Of all clients that ever connected."""
        self.stirred = stirred
        self._ports_of_brokers: set[int] = set()
        self._name_servers = name_servers
        self._ports = itertools.count(FIRST_FREE_PORT)
        self._pid = os.getpid()

    def of(self, node: Node | None) -> NodeNetwork:
        """The network as a server uses it, or (None) a client."""
        return NodeNetwork(self, node)

    def server_at(self, host: str, port: int, *, inside: bool) -> _Accepting | None:
        """Who answers at an address; the name server at every address that no broker has. ``inside``: a server asks."""
        if host in (HOST, "localhost") and port in self._ports_of_brokers:
            return self.servers.get(port)
        known = inside or self._name_servers is None or address_of(host, port) in self._name_servers
        return self.servers.get(NAME_SERVER_PORT) if known else None

    def add(self, server: _Accepting) -> None:
        """A server listens. A port that a broker had stays a broker's while that is down."""
        self.servers[server.port] = server
        if server.port != NAME_SERVER_PORT:
            self._ports_of_brokers.add(server.port)

    def join(self, loop: asyncio.AbstractEventLoop, server: _Accepting, server_loop: Any, receiver: Receiver) -> End:
        """Both ends of a new connection; none is told yet."""
        mine, theirs = End(self, loop, None), End(self, server_loop, server.node)
        mine.other, theirs.other = theirs, mine
        mine.local = theirs.peer = address_of(HOST, next(self._ports))
        mine.peer = theirs.local = server.address
        mine.receiver = receiver
        self.ends |= {mine, theirs}
        return mine

    def check_process(self) -> None:
        if os.getpid() != self._pid:
            raise UsedAfterFork(
                "the local cluster is in the process that started it and cannot be reached from a forked one; "
                "start a cluster there, or do without the fork in this test"
            )


class NodeNetwork:
    """The network of one server, or of one client, which can be cut off."""

    def __init__(self, network: LocalNetwork, node: Node | None) -> None:
        self._network = network
        self._node = node
        self._mine: set[End] = set()
        self._cut = False

    def cut(self) -> None:
        """End all connections of this one, as when its process is killed; it gets no new one."""
        self._cut = True
        for end in list(self._mine):
            end.loop_call(end.sever, "the process was killed")

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        if self._node is None or port in self._network.servers:
            raise Unreachable(address_of(host, port), "cannot listen there")
        server = _Accepting(self._network, self._node, port, accept, address_of(HOST, port), gate)
        self._network.add(server)
        return server

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        network = self._network
        network.check_process()
        server = network.server_at(host, port, inside=self._node is not None)
        if self._cut or server is None:
            raise Unreachable(
                address_of(host, port),
                "this client was killed by the test" if self._cut else "nobody in the local cluster listens there",
            )
        loop = asyncio.get_running_loop()
        network.loops.add(loop)
        end = network.join(loop, server, server.node.loop, receiver)
        self._mine.add(end)
        end.when_gone = self._mine.discard
        ready: asyncio.Future[None] = loop.create_future()

        def accepted() -> None:
            if not ready.done():
                ready.set_result(None)

        def accept() -> None:
            if server.node.alive and network.servers.get(server.port) is server and end.other.admitted(server.gate):
                end.other.open(server.node.call(server.accept))
                end.loop_call(accepted)
            else:
                end.loop_call(end.sever, "connection refused")
                end.loop_call(accepted)

        end.other.loop_call(accept)
        await ready
        if end.receiver is None:
            raise Unreachable(address_of(host, port), "Connection refused")
        receiver.connected(end)
        return end


class End:
    """One side of a connection; everything but ``loop_call`` is called on its own loop."""

    other: End

    def __init__(self, network: LocalNetwork, loop: asyncio.AbstractEventLoop, node: Node | None) -> None:
        self._network = network
        self.loop = loop
        self.node = node
        self.peer = self.local = ""
        self.receiver: Receiver | None = None
        self.when_gone: Callable[[End], None] = lambda end: None
        self._paused: list[bytes] | None = None
        self._gate: Gate | None = None

    unsent = 0
    """The other side takes everything."""

    def loop_call(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have this side's loop call something soon, in the order in which it was asked."""
        self._network.stirred()
        if asyncio._get_running_loop() is self.loop:
            self.loop.call_soon(call, *arguments)
            return
        try:
            self.loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed: a test ended with clients that were not closed
            self.receiver = None
            self._network.ends.discard(self)

    def admitted(self, gate: Gate | None) -> bool:
        """The server's side: whether it accepts this connection."""
        if gate is not None and not gate.admit(self.peer):
            return False
        self._gate = gate
        return True

    def open(self, receiver: Receiver) -> None:
        """The server's side begins."""
        self.receiver = receiver
        self._call(receiver.connected, self)

    def _call(self, call: Callable[..., object], *arguments: Any) -> None:
        if self.node is None:
            call(*arguments)
        elif self.node.alive:
            self.node.call(call, *arguments)

    def write(self, data: bytes) -> None:
        if self.receiver is not None:
            self.other.loop_call(self.other.deliver, data)

    def deliver(self, data: bytes) -> None:
        if self._paused is not None:
            self._paused.append(data)
        elif self.receiver is not None:
            self._call(self.receiver.received, data)

    def pause_reading(self) -> None:
        if self._paused is None:
            self._paused = []

    def resume_reading(self) -> None:
        waiting, self._paused = self._paused or [], None
        for data in waiting:
            self.deliver(data)

    def close(self) -> None:
        if self.receiver is not None:
            self.other.loop_call(self.other.lose, CLOSED)
            self.loop_call(self.lose, CLOSED)

    def abort(self) -> None:
        self.close()

    def sever(self, reason: str) -> None:
        """Lose the connection on both sides."""
        self.lose(reason)
        self.other.loop_call(self.other.lose, reason)

    def lose(self, reason: str) -> None:
        receiver, self.receiver = self.receiver, None
        self._network.ends.discard(self)
        self.when_gone(self)
        if receiver is not None and self._gate is not None:
            self._call(self._gate.release, self.peer)
        if receiver is not None:
            self._call(receiver.lost, reason)
