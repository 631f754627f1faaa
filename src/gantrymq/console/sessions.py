"""Sessions of persons who logged in, and the limit of attempts to log in. Both live in memory: a restart ends them."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from gantrymq.console.identity import Person
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.attempts import Attempts
from gantrymq.runtime.rng import Rng

SESSIONS_MAX: Final = 10_000
"""Then the one that was used longest ago ends."""
TOKEN_BYTES: Final = 32
ATTEMPTS: Final = 5
"""Wrong passwords for one name from one address, until further attempts must wait."""
ATTEMPTS_OF_ADDRESS: Final = 20
ATTEMPTS_WITHIN_S: Final = 300.0


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


def login_limit(clock: Clock) -> Attempts:
    """Counts wrong passwords by name and address, and by address."""
    return Attempts(clock, ATTEMPTS, ATTEMPTS_OF_ADDRESS, ATTEMPTS_WITHIN_S)
