"""A network between simulated hosts that delays, loses, doubles and reorders frames, and resets and cuts connections.

It does what a real one can do to TCP. Within one direction of one connection order holds: a late frame holds up those
behind it, and what is lost is lost with all that follows until the connection breaks. Between connections nothing
holds: a frame overtakes an older one, and an END_TRANSACTION may come a second time over another connection, as
proxies and clients that retry make it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gantrymq.errors import Unreachable
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import decode_command
from gantrymq.protocol.frame import Frame, FrameSplitter, join_frame
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.network import Gate, Link, Listener, Receiver
from gantrymq.testing.local.node import Node

FIRST_FREE_PORT = 40000
HA_PORT = 10912
"""Where a primary has its log for replicas: there are bytes, and no frames."""
OVERTAKEN_S = 0.05
"""A frame that arrives so much before an older one has been reordered; less is the ordinary spread."""
RESET_WITHIN_S = 5.0
"""A connection over a parted line is reset some time within it."""


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """Chances per frame, and delays in seconds."""

    lost: float = 0.0
    """From this frame on nothing of this direction arrives, until the connection is reset."""
    doubled: float = 0.0
    """An END_TRANSACTION comes again over a connection of its own, some time later."""
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
        self._mute: set[tuple[str, str]] = set()
        """From where nothing arrives at which other host; the other way things do."""
        self._latest: dict[str, float] = {}
        """By host: when the latest frame on its way there arrives."""
        self._ports = FIRST_FREE_PORT

    def host(self, address: str, node: Node) -> HostNetwork:
        """The network as a process on that host uses it."""
        return HostNetwork(self, address, node)

    def part(self, one: str, other: str) -> None:
        """Nothing passes between two hosts any more."""
        self._parted.add(frozenset((one, other)))
        for end in self._ends:
            if not self.joined(end.host, end.other.host):
                self.injected["connection parted"] += 1
                self.loop.call_later(self.rng.uniform(0, RESET_WITHIN_S), end.reset, "parted")

    def break_connections(self, host: str) -> None:
        """All connections of a host end, as when a proxy is started again; new ones can be made at once."""
        for end in [end for end in self._ends if end.host == host]:
            self.injected["connection broken"] += 1
            end.reset("broken")

    def mute(self, one: str, other: str) -> None:
        """Nothing arrives from ``one`` at ``other`` any more; the other way everything does."""
        self._mute.add((one, other))
        for end in self._ends:
            if (end.host, end.other.host) == (one, other):
                self.injected["direction parted"] += 1

    def heal(self) -> None:
        """All lines work again. What went over a muted one breaks: a stream has no holes."""
        for end in list(self._ends):
            if (end.host, end.other.host) in self._mute:
                self.loop.call_later(self.rng.uniform(0, RESET_WITHIN_S), end.reset, "timed out")
        self._parted.clear()
        self._mute.clear()

    def joined(self, one: str, other: str) -> bool:
        """Whether connections between them can be made."""
        muted = (one, other) in self._mute or (other, one) in self._mute
        return frozenset((one, other)) not in self._parted and not muted

    def passes(self, one: str, other: str) -> bool:
        """Whether what ``one`` sends arrives at ``other``."""
        return frozenset((one, other)) not in self._parted and (one, other) not in self._mute

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
        mine, theirs = _End(self, node, host), _End(self, listener.node, listener.place[0], listener.place)
        mine.other, theirs.other = theirs, mine
        mine.local = theirs.peer = address_of(host, self.free_port())
        mine.peer = theirs.local = address_of(*listener.place)
        self._ends += [mine, theirs]
        if listener.gate is not None and not listener.node.call(listener.gate.admit, theirs.peer):
            mine.open(receiver)
            mine.reset("refused")
            return mine
        theirs.gate = listener.gate
        theirs.open(listener.node.call(listener.accept))
        mine.open(receiver)
        return mine

    def overtakes(self, host: str, arrives: float) -> None:
        """Count a frame that arrives at ``host`` before one that another connection sent earlier."""
        latest = self._latest.get(host, 0.0)
        if arrives >= latest:
            self._latest[host] = arrives
        elif latest - arrives > OVERTAKEN_S:
            self.injected["frame overtook another connection's"] += 1

    def again(self, end: _End, frame: bytes) -> None:
        """Deliver ``frame`` a second time, over a new connection from the same host."""
        listener = self.listener(*end.other.place) if self.joined(end.host, end.other.host) else None
        if listener is not None:
            self.injected["END_TRANSACTION doubled over a second connection"] += 1
            twin = self.connect(Node("proxy", self.loop), end.host, Deaf(), listener)
            twin.write(frame)
            self.loop.call_later(self.rng.uniform(0, self.faults.late_s), twin.reset, "closed")

    def connections_of(self, node: Node) -> int:
        """How many connections a process has."""
        return sum(end.node is node for end in self._ends)

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

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        place = (self._host, port or self._network.free_port())
        if self._network.listener(*place) is not None:
            raise Unreachable(address_of(*place), "cannot listen there (address already in use)")
        listener = _Listener(self._network, self._node, place, accept, gate)
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
            raise Unreachable(address_of(host, port), "Connection refused") from ConnectionRefusedError()
        return network.connect(self._node, self._host, receiver, listener)


class _Listener:
    def __init__(
        self,
        network: SimNetwork,
        node: Node,
        place: tuple[str, int],
        accept: Callable[[], Receiver],
        gate: Gate | None,
    ) -> None:
        self.address = address_of(*place)
        self.gate = gate
        self.node = node
        self.place = place
        self.accept = accept
        self._network = network

    async def close(self) -> None:
        self._network.silence(self.place)


class Deaf:
    """Listens to nothing."""

    def connected(self, link: Link) -> None: ...

    def received(self, data: bytes) -> None: ...

    def lost(self, reason: str) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class _End:
    """One side of a connection."""

    other: _End

    def __init__(self, network: SimNetwork, node: Node, host: str, place: tuple[str, int] | None = None) -> None:
        """``place``: where its process listens, for the side that was connected to."""
        self.node = node
        self.host = host
        self.place = place or (host, 0)
        self._silent = False
        self.peer = self.local = ""
        self._network = network
        self._receiver: Receiver | None = None
        self._splitter = FrameSplitter()
        self._arrives = 0.0
        self._paused: list[bytes] | None = None
        self._closing = False
        self.gate: Gate | None = None
        """Of the side that was connected to."""

    unsent = 0
    """The lines between hosts take everything."""

    def open(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.node.call(receiver.connected, self)

    def write(self, data: bytes) -> None:
        if self._receiver is None or self._closing or not self.node.alive:
            return
        if HA_PORT in (self.place[1], self.other.place[1]):
            self._send_bytes(data)
            return
        for frame in self._splitter.feed(data):
            self._send(frame)

    def _send_bytes(self, data: bytes) -> None:
        """Another protocol than RocketMQ's remoting: bytes are late, or the connection breaks behind some of them."""
        network, faults = self._network, self._network.faults
        if self._silent or not network.passes(self.host, self.other.host):
            network.injected["frame lost"] += 1
            self._silent = True  # a stream has no holes: nothing comes behind what is lost
            return
        chance = network.rng.random()
        if chance < faults.late:
            self._arrives = max(self._arrives, network.loop.time() + network.rng.uniform(0, faults.late_s))
        elif chance < faults.late + faults.reset + faults.lost:
            network.injected["stream broken"] += 1
            self._pass_on(data[: network.rng.randrange(len(data) + 1)])
            self._silent = True
            network.loop.call_at(max(self._arrives, network.loop.time()), self.reset, "reset")
            return
        self._pass_on(data)

    def _send(self, parts: Frame) -> None:
        network, faults = self._network, self._network.faults
        chance = network.rng.random()
        if self._silent or not network.passes(self.host, self.other.host):
            network.injected["frame lost"] += 1
            return
        for name in ("lost", "doubled", "late", "reset"):
            likely = getattr(faults, name)
            if chance < likely:
                self._suffer(name, parts)
                return
            chance -= likely
        self._pass_on(join_frame(*parts))

    def _suffer(self, fault: str, parts: Frame) -> None:
        network, frame = self._network, join_frame(*parts)
        loop, rng = network.loop, network.rng
        if fault == "doubled":
            self._pass_on(frame)
            if _is_end(parts):
                loop.call_later(rng.uniform(0, network.faults.late_s), network.again, self, frame)
            return
        network.injected[f"frame {fault}"] += 1
        if fault == "lost":
            self._silent = True
            loop.call_later(rng.uniform(0, RESET_WITHIN_S), self.reset, "timed out")
        elif fault == "late":
            self._arrives = max(self._arrives, loop.time() + rng.uniform(0, network.faults.late_s))
            self._pass_on(frame)
        else:
            if rng.random() < 0.5:
                self._pass_on(frame)
            loop.call_at(max(self._arrives, loop.time()), self.reset, "reset")

    def _pass_on(self, frame: bytes) -> None:
        """In order, as a stream is."""
        network = self._network
        arrives = network.loop.time() + network.rng.uniform(0.5, 1.5) * network.faults.latency_s
        self._arrives = arrives = max(self._arrives, arrives)
        network.overtakes(self.other.host, arrives)
        network.loop.call_at(arrives, self.other.deliver, frame)

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
            if self.gate is not None:
                self.node.call(self.gate.release, self.peer)
            self.node.call(receiver.lost, reason)


def _is_end(parts: Frame) -> bool:
    command = decode_command(parts[0], parts[1], b"")
    return command.code == RequestCode.END_TRANSACTION and not command.flag & 1
