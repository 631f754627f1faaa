"""The HA port of a primary: each connection is a replica that gets the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from gantrymq.broker.replication.authentication import NOTHING, Demand, NotLetIn, PrimaryAuthentication
from gantrymq.broker.replication.auto_switch import Hello
from gantrymq.broker.replication.dialects import DEFAULT_PACE, DefaultPrimary, Pace, PrimarySide
from gantrymq.broker.replication.frames import MAX_DATA_BYTES
from gantrymq.broker.replication.sending import Sending, State
from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.message.replication import CopyState
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.network import HIGH_WATER_BYTES, Gate, Link, Listener, Network

log = logging.getLogger("gantrymq.broker.replication")

LOOK_S: Final = 0.01
"""Between two looks at the replicas, at the end."""
TURN_BYTES: Final = 1024 * 1024
"""What one replica may get in one turn of the event loop."""


class Log(Protocol):
    """What is read of the store. Positions are log offsets in bytes."""

    @property
    def min_log_offset(self) -> int: ...

    @property
    def stored(self) -> int:
        """Everything before it is safe on this disk, and may be sent."""

    def read_raw(self, position: int, size: int) -> bytes: ...

    def end_of_file(self, position: int) -> int:
        """Where the file of the log ends that holds a position."""


class Confirming(Protocol):
    """Hears what replicas have."""

    def confirm(self, identity: str, end: int) -> None: ...

    def left(self, identity: str) -> None:
        """The last connection of a replica that followed ended."""


class Port:
    """Listens for replicas, and sends the log to each of them."""

    def __init__(
        self, network: Network, clock: Clock, source: Log, host: str, port: int, allowed: frozenset[str],
        copies: Confirming | None, gate: Gate | None = None, last_s: float = 0.0,
        talk: Callable[[], PrimarySide] = DefaultPrimary, pace: Pace = DEFAULT_PACE, demand: Demand = NOTHING,
    ) -> None:  # fmt: skip
        """``allowed``: IP addresses that replicas may have; empty: any. ``copies``: hears what they have. ``gate``:
        limits connections. ``last_s``: how long ``stop`` waits for replicas that are behind. ``talk``: makes what a
        connection talks. ``demand``: what replicas have to prove first."""
        self._network = network
        self._clock = clock
        self._source = source
        self._host, self._port = host, port
        self._allowed = allowed
        self._copies = copies
        self._gate = gate
        self.last_s = last_s
        self._talk = talk
        self.pace: Final = pace
        self.demand: Final = demand
        self._listener: Listener | None = None
        self._timer: Timer | None = None
        self.replicas: list[Replica] = []
        """The connections, oldest first."""
        self.address = ""
        self._refused: dict[str, str] = {}
        """Address to the reason that was logged last: a replica tries again every second."""

    async def start(self) -> None:
        """Raises Unreachable when the port is in use."""
        self._listener = await self._network.listen(self._host, self._port, self._accept, self._gate)
        self.address = self._listener.address
        self._timer = self._clock.call_later(self.pace.beat, self._beat)
        log.info("replicas get the log from %s", self.address)

    async def stop(self) -> None:
        """Replicas that follow get the rest of the log first: whichever takes over has everything then."""
        ends = self._clock.monotonic() + self.last_s
        while (behind := self._behind()) and self._clock.monotonic() < ends:
            await self._clock.sleep(LOOK_S)
        if behind:
            log.error("the log ends, and %s did not confirm all of it in time", ", ".join(behind))
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            await self._listener.close()
        for replica in list(self.replicas):
            replica.end()

    def states(self) -> tuple[CopyState, ...]:
        """Of those that follow."""
        return tuple(
            CopyState(one.address, one.sending.confirmed, one.sending.next_place, one.gap)
            for one in self.replicas
            if one.follows
        )

    def _behind(self) -> list[str]:
        return [one.identity for one in self.replicas if one.follows and one.gap]

    def _accept(self) -> Replica:
        return Replica(self, self._source, self._clock, self._talk())

    def grown(self, _position: int) -> None:
        """More of the log is safe on this disk."""
        for replica in self.replicas:
            replica.send()

    def _beat(self) -> None:
        self._timer = self._clock.call_later(self.pace.beat, self._beat)
        for replica in list(self.replicas):
            replica.beat()

    def came(self, replica: Replica) -> bool:
        """Whether a connection may stay."""
        host = split_address(replica.address)[0]
        if self._allowed and host not in self._allowed:
            self.refused(host, "haAllowedAddresses does not name its address. If it is yours, add it there")
            return False
        self.replicas.append(replica)
        return True

    def refused(self, identity: str, reason: str) -> None:
        """A connection ends because of what the other side said, or is."""
        if self._refused.get(identity) != reason:
            self._refused[identity] = reason
            log.error("replica %s is refused: %s", identity, reason)

    def gone(self, replica: Replica) -> None:
        if replica in self.replicas:
            self.replicas.remove(replica)
        others = [one for one in self.replicas if one.identity == replica.identity and one.follows]
        if self._copies is not None and replica.follows and not others:
            self._copies.left(replica.identity)

    def confirmed(self, replica: Replica) -> None:
        if self._copies is not None:
            self._copies.confirm(replica.identity, replica.sending.confirmed)


class Replica:
    """One connection."""

    def __init__(self, port: Port, source: Log, clock: Clock, talk: PrimarySide) -> None:
        self._port = port
        self._source = source
        self._clock = clock
        self._talk = talk
        self._named = not talk.knows_replicas
        """Whether it has said who it is, where it has to."""
        self._authentication: PrimaryAuthentication | None = None
        self._link: Link | None = None
        self._paused = self._again = False
        self._heard = self._said = clock.monotonic()
        self.sending = Sending()
        self.address = ""
        """``ip:port`` of the connection."""
        self.identity = ""
        """The IP address, or the disk where the protocol names it."""

    @property
    def follows(self) -> bool:
        return self.sending.state is State.SENDING

    @property
    def gap(self) -> int:
        """Bytes of the log that it has not confirmed."""
        return max(self._source.stored - self.sending.confirmed, 0)

    def connected(self, link: Link) -> None:
        self._link = link
        self.address = link.peer
        self.identity = split_address(link.peer)[0]
        self._authentication = PrimaryAuthentication(self._port.demand, self.identity)
        if not self._port.came(self):
            self.end()

    def received(self, data: bytes) -> None:
        self._heard = self._clock.monotonic()
        link = self._link
        if link is None:
            return
        assert self._authentication is not None
        try:
            answer, data = self._authentication.feed(data)
            if answer:
                link.write(answer)
            for end in self._talk.feed(data):
                if isinstance(end, Hello):
                    self.identity, self._named = str(end.disk), True
                    link.write(self._talk.welcome(self._source.stored))
                    continue
                if not self._named:
                    raise RemoteProtocolError("it reports before it has said who it is")
                was_new = not self.follows
                self.sending.reported(end, self._source.min_log_offset, self._source.stored)
                if was_new:
                    log.info("replica %s follows from log offset %d on", self.identity, self.sending.next_place)
        except RemoteProtocolError as error:
            self._refuse(str(error), error.answer if isinstance(error, NotLetIn) else b"")
            return
        if self.follows:
            self._port.confirmed(self)
            self.send()

    def _refuse(self, reason: str, answer: bytes = b"") -> None:
        self._port.refused(self.identity, reason)
        link = self._link
        if link is not None and answer:
            link.write(answer)
            link.close()
            self._link = None
        self.end()

    def lost(self, reason: str) -> None:
        if self._link is not None:
            log.info("replica %s is gone: %s", self.identity, reason)
        self._link = None
        self._port.gone(self)

    def end(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.abort()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.send()

    def send(self) -> None:
        """Send what there is, as long as it is read."""
        link, sending, source = self._link, self.sending, self._source
        if link is None or not self.follows or self._again:
            return
        budget = TURN_BYTES
        while not self._paused and sending.next_place < source.stored and link.unsent < HIGH_WATER_BYTES:
            if budget <= 0:
                self._again = True
                self._clock.call_soon(self._go_on)
                return
            place = sending.next_place
            try:
                # Apache's slaves append a frame to one file: one that went over its end would stop them there for ever.
                stop = min(place + MAX_DATA_BYTES, source.stored, source.end_of_file(place))
                stop = min(stop, self._talk.stop(place) or stop)
                data = source.read_raw(place, stop - place)
            except (StoreError, OSError) as error:
                log.error("the log cannot be read at %d for replica %s: %s", place, self.identity, error)
                self.end()
                return
            if not data:  # it was deleted before this replica had it
                log.error("replica %s is too far behind: the log begins at %d", self.identity, source.min_log_offset)
                self.end()
                return
            link.write(self._talk.frame(place, data))
            sending.sent(len(data))
            budget -= len(data)
            self._said = self._clock.monotonic()

    def _go_on(self) -> None:
        self._again = False
        self.send()

    def beat(self) -> None:
        """Say that the primary is alive, and end a connection whose other side is not."""
        now = self._clock.monotonic()
        pace = self._port.pace
        if now - self._heard > pace.silence:
            log.error("replica %s has said nothing for %g s; its connection is ended", self.identity, pace.silence)
            self.end()
            return
        if self._authentication is not None and (reason := self._authentication.gone()):
            self._refuse(reason)
            return
        self.send()
        sent_all = self.sending.next_place >= self._source.stored
        if self._link is not None and self.follows and sent_all and now - self._said >= pace.beat / 2:
            self._link.write(self._talk.frame(self.sending.next_place, b""))
