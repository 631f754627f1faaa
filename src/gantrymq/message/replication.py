"""How far the copies of a log are. Values only. Positions are log offsets in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NOT_PRIMARY: Final = "this broker is a replica and takes no writes; send them to the primary of the same brokerName"
"""The remark of a replica that refuses something. Our clients know it: they look for the primary, and wait for it."""
UNCONFIRMED: Final = (
    "this primary takes no writes until a replica has confirmed what was in its log at the start. Start the replica. "
    "Without etcdAddr, brokerRole=ASYNC_MASTER makes it go on without one"
)
"""The remark of such a primary. Our clients know it, too."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """A replica, as its primary sees it."""

    address: str
    """``ip:port`` of its connection."""
    confirmed: int
    """It has everything before this."""
    sent: int
    """This was sent to it."""
    gap: int
    """Bytes that it has not confirmed."""


@dataclass(frozen=True, slots=True)
class FollowState:
    """A replica, as it sees itself."""

    primary: str
    """``host:port`` of the primary's HA port; empty: it is not known."""
    state: str
    """For people."""
    problem: str
    """Why it does not follow; empty: it does."""
    follows: bool
    heard_ms: int
    """When the primary said something last: ms since 1970; 0: never."""
    reported_ms: int
    """When this replica reported last."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """A broker of a group, as the primary sees it."""

    disk: int
    """The identity of its disk."""
    address: str
    """``host:port`` of the primary for clients; of a replica ``ip:port`` of its connection, and nothing without one."""
    in_sync: bool
    is_here: bool
    """Whether it follows at the moment, or is the primary."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A broker group, as one of its brokers sees it."""

    cluster: str
    name: str
    broker_id: int
    """Of the broker that says this."""
    primary_disk: int
    leads: bool
    """Whether the broker that says this is primary. Only a primary knows who is here."""
    beat: int
    """Grows with each change of the record."""
    members: tuple[MemberState, ...]
    start_of_epoch: int | None
    """Log offset at which the present epoch began; None: not heard yet."""
    by_controller: bool = False
    """Whether Apache's controller elects."""
    epochs: tuple[tuple[int, int], ...] = ()
    """Each with the log offset at which it began, where Apache's controller elects: oldest first."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """Who is primary of a broker group that elects it, as one of its brokers knows it."""

    epoch: int
    """Grows with each primary; 0: there was none yet."""
    primary: str
    """``host:port`` for clients; empty: there was none yet."""
    in_sync: int
    """How many brokers have everything that was acknowledged."""
    is_member: bool
    """Whether this broker is one of them, and may be elected."""
    changed_ms: int
    """When this broker saw another primary last: ms since 1970; 0: never."""
    problem: str
    """Why the record cannot be read or written; empty: it can."""
    disk: int
    """Identity of this broker's disk: so the record names its members."""
    group: GroupState | None = None
    """None: there is no record yet."""


@dataclass(frozen=True, slots=True)
class ReplicationState:
    """What a broker says of its log and of the copies."""

    is_primary: bool
    end: int
    """Where the log ends."""
    copies: tuple[CopyState, ...] = ()
    """Of a primary: those that follow at the moment."""
    following: FollowState | None = None
    """Of a replica."""
    takes_writes: bool = False
    """Whether messages are taken, as far as the role says it: a primary may wait for its replicas first."""
    election: ElectionState | None = None
    """None: the settings say who is primary."""
