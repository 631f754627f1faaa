"""How many requests a client may send in a second. All doors of a server count here."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.values import Limits

REST_SECONDS: Final = 0.1
"""A connection from which a request was refused is not read from for so long. So refusals cost little, however much
such a client sends."""
LONGEST_REST_SECONDS: Final = 1.0
_FORGET_FROM: Final = 10_000
"""Clients that are remembered; beyond it those that may send as much as a new one are forgotten."""
_LOOKS: Final = 4
"""How many of the remembered clients are looked at for each new one beyond ``_FORGET_FROM``. More than one, so that
their number falls again; few, so that somebody with many addresses cannot make each of them expensive."""


class Allowance:
    """What one client may still send: a bucket that a second fills, and that holds the requests of one second."""

    __slots__ = ("_at", "_clock", "_left", "_rates")

    def __init__(self, rates: RequestRates, clock: Clock) -> None:
        self._rates = rates
        self._clock = clock
        self._left = float(rates.per_second)
        self._at = clock.monotonic()

    def take(self) -> bool:
        """Count a request; False when there are too many, and it is not counted."""
        if self._left < 1:
            self._fill()
            if self._left < 1:
                return False
        self._left -= 1
        return True

    def owe(self) -> None:
        """Count a request that is executed in any case, because nobody would learn of its refusal."""
        self._left -= 1

    def rest_seconds(self) -> float:
        """How long nothing is to be read from a client that has used up its allowance; 0 when it has not."""
        self._fill()
        if self._left >= 1:
            return 0.0
        return min(max((1 - self._left) / max(self._rates.per_second, 1), REST_SECONDS), LONGEST_REST_SECONDS)

    def is_full(self) -> bool:
        """Whether this client may send as much as one that was never there before."""
        self._fill()
        return self._left >= self._rates.per_second

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._left = min(self._left + (now - self._at) * self._rates.per_second, float(self._rates.per_second))
        self._at = now


class RequestRates:
    """The allowances of all clients, by their names: addresses, or users where a door knows them."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._clock = clock
        self.per_second = limits.requests_per_second
        """0: no limit."""
        self._of_client: OrderedDict[str, Allowance] = OrderedDict()
        """In the order in which they are looked at next."""

    def of(self, client: str) -> Allowance:
        """The allowance of a client, which all its connections share."""
        found = self._of_client.get(client)
        if found is None:
            if len(self._of_client) >= _FORGET_FROM:
                self._forget_some()
            found = self._of_client[client] = Allowance(self, self._clock)
        return found

    def _forget_some(self) -> None:
        for _ in range(_LOOKS):
            name, allowance = self._of_client.popitem(last=False)
            if not allowance.is_full():
                self._of_client[name] = allowance  # its turn comes again when all others were looked at
