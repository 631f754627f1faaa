"""What a broker of a group does, as a table over what it sees. Nothing here waits, asks or remembers.

A broker that acts as primary:

| the record                          | its beats                     | the in-sync set       | it               |
|-------------------------------------|-------------------------------|-----------------------|------------------|
| names another epoch or primary      |                               |                       | STEP_DOWN        |
| yields to another disk              |                               |                       | STEP_DOWN        |
| is its own, or cannot be read       | it is not sure for a lease    | somebody is not here  | STEP_DOWN        |
| is its own                          |                               | not heard, none comes | WAIT             |
| is its own                          |                               | is not the right one  | CHANGE_SET       |
| is its own                          | a third of a lease passed     |                       | BEAT             |
| anything else                       |                               |                       | WAIT             |

Any other broker:

| the record                          | the primary                   | this disk             | it               |
|-------------------------------------|-------------------------------|-----------------------|------------------|
| cannot be read                      |                               |                       | WAIT             |
| is missing                          |                               | may begin the group   | CREATE           |
| yields to this disk                 |                               | in the in-sync set    | STAND            |
| yields to another one               | wrote nothing for a lease     | in the in-sync set    | STAND            |
| yields to another one               |                               |                       | WAIT             |
| names this disk                     |                               |                       | STAND            |
| names nobody                        |                               | in the in-sync set    | STAND            |
| names another one; Apache's         |                               |                       | WAIT             |
| controller elects                   |                               |                       |                  |
| names another one                   | is heard here                 |                       | WAIT             |
| names another one                   | is not here: its port is shut | in the in-sync set    | STAND            |
| names another one                   | wrote nothing for a lease     | in the in-sync set    | STAND            |
| anything else                       |                               |                       | WAIT             |

STAND means: stop following, and write a record that names this broker if nothing was written meanwhile. Stopping comes
first. What a primary acknowledges is on every member of the set, so a primary of whom one member has stopped following
acknowledges nothing any more, whatever it believes. That is what makes the election safe; clocks and leases only say
when to try.

A record yields when an operator has named the next primary. The one before has stopped by then, and everything that it
acknowledged is on every member as always. So whoever stands is right; the others only let the named one go first.

A primary that hears too few of the in-sync set acknowledges nothing. It beats no more, so that a member which it does
not hear may stand after a lease. It looks at the record meanwhile, and is sure as long as it finds itself there. If
nobody stands, because the others are off, it is still primary when they come back.

A primary that reaches the store no more goes on while the whole set follows it: whoever hears it does not stand. So a
store that is away stops nobody, until somebody is lost as well.

Apache's controller elects by itself (``controller/``). It names a member of the in-sync set, which then stands: it
stops following before it acts as primary, as everybody. Nobody stands against a primary that the controller names.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.replication.election.record import NOBODY, Record, may_stand


class Act(enum.Enum):
    """What to do next."""

    WAIT = "wait"
    CREATE = "write the first record"
    STAND = "become primary"
    BEAT = "say that the primary is alive"
    CHANGE_SET = "change the in-sync set"
    STEP_DOWN = "be primary no more"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a broker sees at one moment. Times in seconds, by its own monotonic clock."""

    disk: int
    """Its own."""
    record: Record | None
    """As it was read last; None: there was none."""
    readable: bool
    """Whether the last look at the store succeeded."""
    still_s: float = 0.0
    """Since the record was another one than it is now."""
    lease_s: float = 0.0
    # of one that acts as primary
    epoch: int = 0
    """For which it acts as primary; 0: it does not."""
    unbeaten_s: float = 0.0
    """Since it sent its last beat that arrived."""
    unsure_s: float = 0.0
    """The same; or, while it does not beat, since its last look that found its own record."""
    all_follow: bool = True
    """Whether all of the set have reported within a lease."""
    hears_set: bool = True
    """Whether it hears enough of the set to acknowledge anything."""
    right_set: frozenset[int] = frozenset()
    """What the set should be."""
    # of any other
    hears: bool = False
    """Whether the primary has said something to it within a lease."""
    shut: bool = False
    """Whether the primary of this record, which it has followed, takes no connections any more."""
    elected_by_controller: bool = False
    """Whether Apache's controller elects, and brokers only ask it to."""
    may_begin: bool = False
    """Whether its log may become that of the group."""


BEATS: Final = 3
"""In a lease."""


def stands_early(record: Record, disk: int, *, shut: bool) -> bool:
    """Whether the broker with this disk need not wait for a lease before it stands. ``shut``: as in ``Seen``."""
    if record.yields:
        return record.yields == disk
    return record.primary.disk in (disk, NOBODY.disk) or shut


def next_act(seen: Seen) -> Act:
    """See the tables."""
    return _primary(seen) if seen.epoch else _other(seen)


def _primary(seen: Seen) -> Act:
    record = seen.record
    if record is None or record.epoch != seen.epoch or record.primary.disk != seen.disk:
        return Act.STEP_DOWN
    if record.yields:
        return Act.STEP_DOWN
    if seen.unsure_s > seen.lease_s and not seen.all_follow:
        return Act.STEP_DOWN
    if not seen.hears_set and seen.right_set <= record.in_sync:
        return Act.WAIT
    if seen.right_set != record.in_sync:
        return Act.CHANGE_SET
    return Act.BEAT if seen.unbeaten_s >= seen.lease_s / BEATS else Act.WAIT


def _other(seen: Seen) -> Act:
    record = seen.record
    if not seen.readable:
        return Act.WAIT
    if record is None:
        return Act.CREATE if seen.may_begin else Act.WAIT
    if not may_stand(record, seen.disk):
        return Act.WAIT
    if stands_early(record, seen.disk, shut=False):
        return Act.STAND
    if seen.hears or seen.elected_by_controller:
        return Act.WAIT
    early = stands_early(record, seen.disk, shut=seen.shut)
    return Act.STAND if early or seen.still_s > seen.lease_s else Act.WAIT
