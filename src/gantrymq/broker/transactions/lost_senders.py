"""Senders of half messages with decisive checkers: which of them disconnected, and which came back.

The immunity of a half message protects a local transaction that is still running. When its sender is dead it protects
nothing. But a broker cannot see deaths, only connections that close: those of a killed process, and also those of a
living one after a network reset. So a half message stays immune as follows:

1. Its connection closes. If the client has another connection, or makes one within ``sender_grace_ms``, nothing
   happens, and the half message belongs to that connection from now on.
2. If it has none when the grace period is over, the half message is *abandoned*, and another producer may be asked.
3. If the client comes back before another producer was online to be asked, the half message is its own again, and
   immune.

Heartbeats say to which client a connection belongs, by the client id. A connection without a heartbeat (the fast port
of a Java client's "VIP channel"), or with several ids, belongs to no known client, and its half messages keep their
immunity.

A broker that starts does not know the connections of the halves that are open. Our clients say in each half message who
they are (SENDING_CLIENT). So a start is as if all of them had just lost their connections, but they have
``start_grace_ms`` to come back. Halves that do not name their sender keep their immunity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.transactions.ports import ProducerGroups
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable

GRACE_STEPS: Final = 5
"""The grace period consists of this many timers in a row. If the loop was blocked, only one of them runs out, not
all: a client that reconnected in that time is noticed before the next one."""

CLEAN_AT_LEAST: Final = 64
"""Halves of a connection that are remembered before those that ended are taken out."""


@dataclass(slots=True)
class _Sent:
    """Half queue offsets that a connection sent; those that ended are taken out when they have doubled."""

    offsets: dict[int, None] = field(default_factory=dict)
    clean_at: int = CLEAN_AT_LEAST


@dataclass(slots=True)
class _LostSender:
    """A client without a connection."""

    offsets: dict[int, None]
    grace_ms: int
    timer: Timer | None = None


class LostSenders:
    """Knows the halves with decisive checkers by their senders. Nothing of it outlives the broker.

    ``abandoned``: called with each open half whose sender is gone for good, as far as one can know. ``reclaimed``:
    called with those whose sender came back after that.
    """

    def __init__(
        self,
        table: TransactionTable,
        producers: ProducerGroups,
        clock: Clock,
        config: TransactionConfig,
        abandoned: Callable[[OpenHalf], None],
        reclaimed: Callable[[OpenHalf], None],
    ) -> None:
        self._table = table
        self._producers = producers
        self._clock = clock
        self.config = config
        self._abandoned = abandoned
        self._reclaimed = reclaimed
        self._sent: dict[bytes, _Sent] = {}
        """By the packed address and port of the connection: the born host of its halves."""
        self._gone: dict[str, _LostSender] = {}
        """By client id."""

    def close(self) -> None:
        """Forget all senders."""
        for lost in self._gone.values():
            if lost.timer is not None:
                lost.timer.cancel()
        self._gone.clear()
        self._sent.clear()

    def restarted(self, halves: Iterable[OpenHalf]) -> None:
        """The broker starts to decide. ``halves``: all that are open, of any senders. Where only the role of the broker
        has changed, some are connected."""
        if self.config.sender_grace_ms < 0 or self.config.start_grace_ms < 0:
            return
        for half in halves:
            if half.sender:
                lost = self._gone.setdefault(half.sender, _LostSender({}, self.config.start_grace_ms))
                lost.offsets[half.queue_offset] = None
        for client_id, lost in list(self._gone.items()):
            client = self._producers.connection_of(client_id)
            if client is None:
                self._wait(client_id, lost, GRACE_STEPS)
            else:
                self.client_came(client_id, client)

    def sent(self, half: OpenHalf, born_host: bytes) -> None:
        """A half with decisive checkers (or the retry of one) came by the connection from there."""
        self._belong([half.queue_offset], born_host)

    def not_stored(self, half: OpenHalf) -> None:
        """A half could not be stored. Its queue offset will be that of another one, perhaps of another sender."""
        known = [sent.offsets for sent in self._sent.values()] + [lost.offsets for lost in self._gone.values()]
        for offsets in known:
            offsets.pop(half.queue_offset, None)

    def client_gone(self, client: Client) -> None:
        """A connection ended; call it while the heartbeats of the connection are known."""
        sent = self._sent.pop(client.host, None) if self._sent else None
        if sent is None or self.config.sender_grace_ms < 0:
            return
        offsets = [offset for offset in sent.offsets if offset in self._table]
        client_ids = list(self._producers.client_ids(client))
        if not offsets or len(client_ids) != 1:
            return
        client_id = client_ids[0]
        other = self._producers.connection_of(client_id)
        if other is not None:
            self._belong(offsets, other.host)
            return
        lost = self._gone.setdefault(client_id, _LostSender({}, self.config.sender_grace_ms))
        lost.grace_ms = self.config.sender_grace_ms
        lost.offsets.update(dict.fromkeys(offsets))
        self._wait(client_id, lost, GRACE_STEPS)

    def client_came(self, client_id: str, client: Client) -> None:
        """A connection said whose it is."""
        lost = self._gone.pop(client_id, None)
        if lost is None:
            return
        if lost.timer is not None:
            lost.timer.cancel()
        self._belong(lost.offsets, client.host)
        for half in self._open(lost.offsets):
            if half.sender_gone:
                half.sender_gone = False
                self._reclaimed(half)

    def _belong(self, offsets: Iterable[int], born_host: bytes) -> None:
        sent = self._sent.get(born_host)
        if sent is None:
            sent = self._sent[born_host] = _Sent()
        sent.offsets.update(dict.fromkeys(offsets))
        if len(sent.offsets) >= sent.clean_at:
            sent.offsets = {offset: None for offset in sent.offsets if offset in self._table}
            sent.clean_at = max(CLEAN_AT_LEAST, 2 * len(sent.offsets))

    def _open(self, offsets: Iterable[int]) -> list[OpenHalf]:
        found = (self._table.get(offset) for offset in offsets)
        return [half for half in found if half is not None and half.state <= State.OPEN]

    def _wait(self, client_id: str, lost: _LostSender, steps: int) -> None:
        if lost.timer is not None:
            lost.timer.cancel()
        if not steps:
            self._abandon(client_id, lost)
            return
        pause_s = lost.grace_ms / 1000 / GRACE_STEPS
        lost.timer = self._clock.call_later(pause_s, partial(self._wait, client_id, lost, steps - 1))

    def _abandon(self, client_id: str, lost: _LostSender) -> None:
        for half in self._open(lost.offsets):
            half.sender_gone = True
            self._abandoned(half)
        self._forget_later(client_id, lost, self._clock.monotonic())

    def _forget_later(self, client_id: str, lost: _LostSender, now: float) -> None:
        """When all immunities are over, the senders no longer matter."""
        until = now
        for half in self._open(lost.offsets):
            # One that is not safe yet has no end of its immunity yet.
            until = max(until, half.immune_until, now + half.immunity_ms / 1000 if half.state < State.OPEN else now)
        lost.timer = self._clock.call_later(until - now, partial(self._forget, client_id, lost))

    def _forget(self, client_id: str, lost: _LostSender) -> None:
        now = self._clock.monotonic()
        if any(half.immune_until > now for half in self._open(lost.offsets)):
            self._forget_later(client_id, lost, now)  # transactionTimeOut was changed meanwhile
        else:
            del self._gone[client_id]
