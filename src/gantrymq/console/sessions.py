"""Sessions of persons who logged in, and the limit of attempts to log in. Both live in memory: a restart ends them."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

from gantrymq.console.identity import Person
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.rng import Rng

SESSIONS_MAX: Final = 10_000
"""Then the one that was used longest ago ends."""
TOKEN_BYTES: Final = 32
ATTEMPTS: Final = 5
"""Wrong passwords for one name from one address, until further attempts must wait."""
ATTEMPTS_OF_ADDRESS: Final = 20
ATTEMPTS_WITHIN_S: Final = 300.0
REMEMBERED_MAX: Final = 10_000
"""Names and addresses whose attempts are remembered."""


@dataclass(slots=True)
class Session:
    """One person in one browser."""

    person: Person
    csrf: str
    """Every form of this session carries it."""
    began: float
    used: float
    """Monotonic seconds, both."""

    def is_of_form(self, token: str) -> bool:
        """Whether a form with this token was made for this session."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())


class Sessions:
    """By token. A token is known to its browser only; here its hash is kept."""

    def __init__(self, clock: Clock, rng: Rng, idle_s: float, longest_s: float) -> None:
        self._clock = clock
        self._rng = rng
        self._idle_s = idle_s
        self._longest_s = longest_s
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def begin(self, person: Person) -> tuple[str, Session]:
        """The token for the cookie, and the session."""
        token, now = self._rng.token(TOKEN_BYTES).hex(), self._clock.monotonic()
        session = Session(person, self._rng.token(TOKEN_BYTES).hex(), now, now)
        self._sessions[_key(token)] = session
        while len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return token, session

    def of(self, token: str, *, touch: bool = True) -> Session | None:
        """The session of a cookie; None when it is over. ``touch``: a person is there; a page that refreshes itself
        does not count."""
        key = _key(token)
        session = self._sessions.get(key)
        if session is None:
            return None
        if self._is_over(session):
            del self._sessions[key]
            return None
        if touch:
            session.used = self._clock.monotonic()
            self._sessions.move_to_end(key)
        return session

    def open(self) -> list[Session]:
        """All of them. Those that are over are forgotten, and what they kept of their persons with them."""
        for key, session in list(self._sessions.items()):
            if self._is_over(session):
                del self._sessions[key]
        return list(self._sessions.values())

    def _is_over(self, session: Session) -> bool:
        now = self._clock.monotonic()
        return now - session.used > self._idle_s or now - session.began > self._longest_s

    def end(self, token: str) -> None:
        self._sessions.pop(_key(token), None)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


@dataclass(slots=True)
class LoginLimit:
    """Counts wrong passwords by name and address, and by address."""

    clock: Clock
    _failed: OrderedDict[tuple[str | None, str], deque[float]] = field(default_factory=OrderedDict)
    """None in place of a name: all attempts of the address. A name may be empty, and then counts like any other."""

    def wait_s(self, name: str, address: str) -> float:
        """Seconds until the next attempt is allowed; 0: now."""
        return max(self._wait((name, address), ATTEMPTS), self._wait((None, address), ATTEMPTS_OF_ADDRESS))

    def attempt(self, name: str, address: str) -> None:
        """An attempt begins. It counts as wrong until ``succeeded``, so that many at the same time count, too."""
        now = self.clock.monotonic()
        for key, limit in (((name, address), ATTEMPTS), ((None, address), ATTEMPTS_OF_ADDRESS)):
            times = self._failed.setdefault(key, deque(maxlen=limit))
            times.append(now)
            self._failed.move_to_end(key)
        while len(self._failed) > REMEMBERED_MAX:
            self._failed.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """That attempt was no wrong one."""
        self._failed.pop((name, address), None)
        of_address = self._failed.get((None, address))
        if of_address:
            of_address.pop()

    def _wait(self, key: tuple[str | None, str], limit: int) -> float:
        times = self._failed.get(key)
        if times is None or len(times) < limit:
            return 0.0
        return max(times[0] + ATTEMPTS_WITHIN_S - self.clock.monotonic(), 0.0)
