"""A network between simulated hosts that delays, loses, doubles and reorders frames, resets and parts.

Faults are put on whole frames, as a peer sees them: a lost frame looks like a peer that never answered, a doubled one
like a retry, a late one like an answer that was overtaken.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gantrymq.errors import Unreachable
from gantrymq.protocol.frame import FrameSplitter, join_frame
from gantrymq.runtime.network import Link, Listener, Receiver, address_of
from gantrymq.testing.node import Node

FIRST_FREE_PORT = 40000
RESET_WITHIN_S = 5.0
"""A connection over a parted line is reset some time within it."""


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """Chances per frame, and delays in seconds."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    reset: float = 0.0
    """The connection breaks while the frame is under way."""
    latency_s: float = 0.0005
    late_s: float = 3.0


class SimNetwork:
    """All lines between all hosts."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: random.Random, injected: Counter[str]) -> None:
        self.loop = loop
        self.rng = rng
        self.faults = NetworkFaults()
        self.injected = injected
        self._listening: dict[tuple[str, int], _Listener] = {}
        self._ends: list[_End] = []
        self._parted: set[frozenset[str]] = set()
        self._ports = FIRST_FREE_PORT

    def host(self, address: str, node: Node) -> HostNetwork:
        """The network as a process on that host uses it."""
        return HostNetwork(self, address, node)

    def part(self, one: str, other: str) -> None:
        """Nothing passes between two hosts any more."""
        self.injected["partition"] += 1
        self._parted.add(frozenset((one, other)))
        for end in self._ends:
            if not self.joined(end.host, end.other.host):
                self.loop.call_later(self.rng.uniform(0, RESET_WITHIN_S), end.reset, "parted")

    def heal(self) -> None:
        """All lines work again."""
        self._parted.clear()

    def joined(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self._parted

    def free_port(self) -> int:
        self._ports += 1
        return self._ports

    def listener(self, host: str, port: int) -> _Listener | None:
        return self._listening.get((host, port))

    def listen(self, listener: _Listener) -> None:
        self._listening[listener.place] = listener

    def silence(self, place: tuple[str, int]) -> None:
        self._listening.pop(place, None)

    def connect(self, node: Node, host: str, receiver: Receiver, listener: _Listener) -> _End:
        """Both ends of a new connection."""
        mine, theirs = _End(self, node, host), _End(self, listener.node, listener.place[0])
        mine.other, theirs.other = theirs, mine
        mine.local = theirs.peer = address_of(host, self.free_port())
        mine.peer = theirs.local = address_of(*listener.place)
        self._ends += [mine, theirs]
        theirs.open(listener.node.call(listener.accept))
        mine.open(receiver)
        return mine

    def forget(self, end: _End) -> None:
        if end in self._ends:
            self._ends.remove(end)

    def lose_process(self, node: Node) -> None:
        """The kernel of a killed process's host closes its connections and ports."""
        for place in [place for place, listener in self._listening.items() if listener.node is node]:
            self.silence(place)
        for end in [end for end in self._ends if end.node is node]:
            end.abort()


class HostNetwork:
    """One process's way to the others."""

    def __init__(self, network: SimNetwork, host: str, node: Node) -> None:
        self._network = network
        self._host = host
        self._node = node

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver]) -> Listener:
        place = (self._host, port or self._network.free_port())
        if self._network.listener(*place) is not None:
            raise Unreachable(address_of(*place), "cannot listen there (address already in use)")
        listener = _Listener(self._network, self._node, place, accept)
        self._network.listen(listener)
        return listener

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        network = self._network
        await asyncio.sleep(network.faults.latency_s)
        listener = network.listener(host, port)
        if not network.joined(self._host, host):
            await asyncio.sleep(timeout_s)
            raise Unreachable(address_of(host, port), f"no connection within {timeout_s:g} s")
        if listener is None or not self._node.alive:
            raise Unreachable(address_of(host, port), "Connection refused")
        return network.connect(self._node, self._host, receiver, listener)


class _Listener:
    def __init__(self, network: SimNetwork, node: Node, place: tuple[str, int], accept: Callable[[], Receiver]) -> None:
        self.address = address_of(*place)
        self.node = node
        self.place = place
        self.accept = accept
        self._network = network

    async def close(self) -> None:
        self._network.silence(self.place)


class _End:
    """One side of a connection."""

    other: _End

    def __init__(self, network: SimNetwork, node: Node, host: str) -> None:
        self.node = node
        self.host = host
        self.peer = self.local = ""
        self._network = network
        self._receiver: Receiver | None = None
        self._splitter = FrameSplitter()
        self._arrives = 0.0
        self._paused: list[bytes] | None = None
        self._closing = False

    def open(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.node.call(receiver.connected, self)

    def write(self, data: bytes) -> None:
        if self._receiver is None or self._closing or not self.node.alive:
            return
        for frame in self._splitter.feed(data):
            self._send(join_frame(*frame))

    def _send(self, frame: bytes) -> None:
        network, faults = self._network, self._network.faults
        chance = network.rng.random()
        if not network.joined(self.host, self.other.host):
            return
        for name in ("lost", "doubled", "late", "reset"):
            likely = getattr(faults, name)
            if chance < likely:
                network.injected[f"frame {name}"] += 1
                self._suffer(name, frame)
                return
            chance -= likely
        self._pass_on(frame)

    def _suffer(self, fault: str, frame: bytes) -> None:
        network, other = self._network, self.other
        if fault == "doubled":
            self._pass_on(frame)
            self._pass_on(frame)
        elif fault == "late":
            network.loop.call_later(network.rng.uniform(0, network.faults.late_s), other.deliver, frame)
        elif fault == "reset":
            network.loop.call_later(network.rng.uniform(0, network.faults.latency_s), self.reset, "reset")
            if network.rng.random() < 0.5:
                self._pass_on(frame)

    def _pass_on(self, frame: bytes) -> None:
        """In order, as a stream is."""
        loop = self._network.loop
        self._arrives = max(
            self._arrives, loop.time() + self._network.rng.uniform(0.5, 1.5) * self._network.faults.latency_s
        )
        loop.call_at(self._arrives, self.other.deliver, frame)

    def deliver(self, frame: bytes) -> None:
        if self._receiver is None or not self.node.alive:
            return
        if self._paused is not None:
            self._paused.append(frame)
        else:
            self.node.call(self._receiver.received, frame)

    def pause_reading(self) -> None:
        if self._paused is None:
            self._paused = []

    def resume_reading(self) -> None:
        waiting, self._paused = self._paused or [], None
        for frame in waiting:
            self.deliver(frame)

    def close(self) -> None:
        if self._receiver is not None and not self._closing:
            self._closing = True
            self._network.loop.call_at(max(self._arrives, self._network.loop.time()), self.reset, "closed")

    def abort(self) -> None:
        self.reset("closed")

    def reset(self, reason: str) -> None:
        """Both sides lose it; the other one a little later."""
        self._lose(reason)
        self._network.loop.call_later(self._network.faults.latency_s, self.other._lose, reason)

    def _lose(self, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        self._network.forget(self)
        if receiver is not None and self.node.alive:
            self.node.call(receiver.lost, reason)
