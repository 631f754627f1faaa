"""When the in-sync set has a record: what a primary of a group asks for beside its own disk (``store.log.conditions``).

Everything that is acknowledged is on the disk of every member. A member that is away holds up every answer until the
record says that it is no member any more; a replica that has caught up is waited for before the record says that it is
one. So at each moment the larger one of both sets is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.message.send_status import SendStatus


@dataclass(slots=True)
class _Copy:
    """A replica that is connected, or was."""

    confirmed: int = 0
    reported_s: float = 0.0
    """When it reported last."""
    left_s: float | None = None
    """Since when it has no connection; None: it has one."""
    caught_up_s: float = 0.0
    """It has everything that was written then."""
    goal: int = 0
    goal_s: float = 0.0
    """Where the log ended, and when; once it has that, it has caught up to then."""


ALONE: Final = 1 << 62
"""How far nobody else has to have the log."""
NEAR_BYTES: Final = 256 * 1024
"""So much may be missing when a replica is waited for. Source: MessageStoreConfig.haMaxGapNotInSync."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a member counts as lost."""

    least: int
    """How many members there must be, the primary included."""
    away_s: float
    """Without a connection."""
    behind_s: float
    """Without having caught up."""
    arrival_s: float
    """From the beginning of a primary on, until members have found it."""


class InSync:
    """How far the in-sync set has the log of one primary."""

    name = "the in-sync set"
    expired = SendStatus.FLUSH_SLAVE_TIMEOUT
    absent = SendStatus.SLAVE_NOT_AVAILABLE

    def __init__(
        self, disk: int, in_sync: frozenset[int], limits: Limits, limit_ms: int, monotonic: Callable[[], float],
        written: Callable[[], int], stored: Callable[[], int],
    ) -> None:  # fmt: skip
        """``disk``: of the primary. ``limit_ms``: how long senders wait. ``written``: where the log ends here;
        ``stored``: how far it is safe on this disk."""
        self._disk: Final = disk
        self._limits: Final = limits
        self.limit_ms = limit_ms
        self._now = monotonic
        self._written, self._stored = written, stored
        self.in_sync = in_sync
        """As the record has it."""
        self._joining: dict[int, int] = {}
        """Disk to what it must have before the record may name it; what comes behind waits for it already."""
        self._named: frozenset[int] = frozenset()
        """Those that the record may name, because it was asked to."""
        # They do not know yet that this one is primary.
        arrive = monotonic() + limits.arrival_s - limits.away_s
        self._copies = {other: _Copy(left_s=arrive, caught_up_s=arrive) for other in in_sync - {disk}}
        self._reached = 0
        self._changed: Callable[[], None] = lambda: None

    @property
    def position(self) -> int:
        """Everything before this log offset is on each member. With no other member that is all there is."""
        return ALONE if self._is_alone() else self._reached

    def _is_alone(self) -> bool:
        return self.available and not self._wanted()

    def _wanted(self) -> set[int]:
        return {*self.in_sync, *self._joining, *self._named} - {self._disk}

    @property
    def available(self) -> bool:
        """Whether enough members are here. While they are not, nothing is acknowledged."""
        here = sum(not self._is_gone(copy) for disk, copy in self._copies.items() if disk in self.in_sync)
        return here + 1 >= self._limits.least

    def follow(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.look()

    def truncated(self, position: int) -> None:
        for copy in self._copies.values():
            copy.confirmed = min(copy.confirmed, position)
        self._reached = min(self._reached, position)

    # ---- what the HA port tells

    def confirm(self, identity: str, end: int) -> None:
        """A replica that is connected has everything before ``end``."""
        now = self._now()
        copy = self._copies.setdefault(int(identity), _Copy(caught_up_s=now))
        copy.left_s, copy.reported_s = None, now
        if end >= copy.goal:
            copy.caught_up_s = max(copy.caught_up_s, copy.goal_s)
            copy.goal, copy.goal_s = self._written(), now
        copy.confirmed = max(copy.confirmed, end)
        self.look()

    def left(self, identity: str) -> None:
        """The last connection of a replica ended."""
        disk = int(identity)
        copy = self._copies.get(disk)
        if copy is not None:
            copy.left_s = self._now()
            if disk not in self.in_sync and disk not in self._named:  # it is new when it comes back
                del self._copies[disk]
                self._joining.pop(disk, None)
        self.look()

    # ---- what the record tells

    def take(self, in_sync: frozenset[int]) -> None:
        """The record has this set."""
        self._keep_what_is_safe()
        self.in_sync, self._named = in_sync, frozenset()
        self._joining = {disk: end for disk, end in self._joining.items() if disk not in in_sync}
        self.look()

    def names(self, in_sync: frozenset[int]) -> None:
        """The record is about to have this set; until ``take`` it may have it or not."""
        self._named |= in_sync

    def _keep_what_is_safe(self) -> None:
        if self._is_alone():  # it was safe without the others
            self._reached = max(self._reached, self._stored())

    # ---- what the set should be

    def right(self) -> frozenset[int]:
        """The set as it should be: without those that are gone or do not catch up, unless too few would stay; with
        those that have everything that is safe."""
        here = {disk for disk, copy in self._copies.items() if not self._is_gone(copy)}
        stay = {disk for disk in here & self.in_sync if not self._is_late(self._copies[disk])} | {self._disk}
        come = {disk for disk, needed in self._joining.items() if self._copies[disk].confirmed >= needed}
        right = stay | come
        return frozenset(right if len(right) >= self._limits.least else self.in_sync | come)

    def _admit(self) -> None:
        """Those that have nearly everything are waited for from now on."""
        for disk, copy in self._copies.items():
            near = copy.left_s is None and self._written() - copy.confirmed <= NEAR_BYTES
            if disk in self.in_sync or disk in self._named:
                continue
            if not near:
                self._joining.pop(disk, None)
            elif disk not in self._joining:
                self._keep_what_is_safe()
                self._joining[disk] = self._reached

    def all_follow(self, within_s: float) -> bool:
        """Whether each member is connected and has reported within so many seconds."""
        now = self._now()
        copies = [self._copies.get(disk) for disk in self.in_sync - {self._disk}]
        return all(copy is not None and copy.left_s is None and now - copy.reported_s <= within_s for copy in copies)

    def hears_enough(self, within_s: float) -> bool:
        """Whether so many members have reported within so many seconds that something can be acknowledged."""
        now = self._now()
        heard = (
            copy.left_s is None and now - copy.reported_s <= within_s
            for disk, copy in self._copies.items()
            if disk in self.in_sync
        )
        return sum(heard) + 1 >= self._limits.least

    def look(self) -> None:
        """Something has changed; or only the time."""
        self._admit()
        wanted = self._wanted()
        if wanted and self.available:
            copies = [self._copies.get(disk) for disk in wanted]
            self._reached = max(self._reached, min(0 if copy is None else copy.confirmed for copy in copies))
        self._changed()

    def _is_gone(self, copy: _Copy) -> bool:
        return copy.left_s is not None and self._now() - copy.left_s > self._limits.away_s

    def _is_late(self, copy: _Copy) -> bool:
        """It is connected, and does not keep up."""
        late = self._now() - max(copy.caught_up_s, 0.0) > self._limits.behind_s
        return late and copy.left_s is None and copy.confirmed < self._written()
