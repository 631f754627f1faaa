"""The limit of wrong passwords and signatures: of one user from one address, and of one address.

Nobody is locked out elsewhere: what counts is always the address, too. So a stranger who guesses hinders only those who
share his address, and not for long.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from gantrymq.runtime.clock import Clock

REMEMBERED_MAX: Final = 10_000
"""Names and addresses whose attempts are remembered; then the one with the oldest last attempt is forgotten."""
NAME_MAX: Final = 300
"""Characters of a name that are looked at."""


class Attempts:
    """Counts wrong attempts by name and address, and by address."""

    def __init__(self, clock: Clock, of_name: int, of_address: int, within_s: float) -> None:
        """``of_name``: wrong attempts for one name from one address, until further ones must wait; ``of_address``: for
        any names; ``within_s``: so long an attempt counts."""
        self._clock = clock
        self._of_name = of_name
        self._of_address = of_address
        self._within_s = within_s
        self._failed: OrderedDict[tuple[str | None, str], deque[float]] = OrderedDict()
        """None in place of a name: all attempts of the address. A name may be empty, and then counts like any other."""

    def wait_s(self, name: str, address: str) -> float:
        """Seconds until the next attempt is allowed; 0: now."""
        if not self._failed:
            return 0.0
        of_name = self._wait((name[:NAME_MAX], address), self._of_name)
        return max(of_name, self._wait((None, address), self._of_address))

    def attempt(self, name: str, address: str) -> None:
        """An attempt was wrong; or it begins, and counts as wrong until ``succeeded``, so that many at the same time
        count, too."""
        now = self._clock.monotonic()
        for key, limit in (((name[:NAME_MAX], address), self._of_name), ((None, address), self._of_address)):
            times = self._failed.setdefault(key, deque(maxlen=limit))
            times.append(now)
            self._failed.move_to_end(key)
        while len(self._failed) > REMEMBERED_MAX:
            self._failed.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """The attempt that began was no wrong one."""
        self.forget(name, address)
        of_address = self._failed.get((None, address))
        if of_address:
            of_address.pop()

    def forget(self, name: str, address: str) -> None:
        """The user was there: what was wrong before were mistakes. What was tried with other names counts on."""
        if self._failed:
            self._failed.pop((name[:NAME_MAX], address), None)

    def clear(self) -> None:
        """Forget everything: the passwords are others now."""
        self._failed.clear()

    def _wait(self, key: tuple[str | None, str], limit: int) -> float:
        times = self._failed.get(key)
        if times is None or len(times) < limit:
            return 0.0
        return max(times[0] + self._within_s - self._clock.monotonic(), 0.0)
