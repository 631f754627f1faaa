"""The roles of a broker. A role is a list of duties: to give a broker something to do by itself, add a ``Duty`` here.

Duties start in the order of their list, and end in reverse order. ``Broker`` walks the list and names none of them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gantrymq.broker.config_sections import MASTER_ID, SLAVE
from gantrymq.broker.delivery.delivered import SAVE_SECONDS as DELIVERED_SECONDS
from gantrymq.broker.duty import Duty, repeated
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.parts import Parts
from gantrymq.broker.pop.lite.expiry import LOOK_SECONDS as LITE_SECONDS
from gantrymq.broker.registries.filters import SAVE_SECONDS
from gantrymq.broker.replication.ahead import AHEAD_SECONDS, Ahead
from gantrymq.broker.replication.copies import Copies
from gantrymq.broker.replication.duties import following, noting
from gantrymq.broker.replication.election.in_sync import InSync
from gantrymq.broker.replication.election.member import GroupMember
from gantrymq.broker.replication.promotion import unmark
from gantrymq.broker.upkeep.registration import Registration
from gantrymq.broker.upkeep.retention import RETENTION_SECONDS
from gantrymq.broker.upkeep.statistics import SAMPLE_SECONDS
from gantrymq.remoting.client import RemotingClient
from gantrymq.store.room import LOOK_SECONDS

if TYPE_CHECKING:
    from gantrymq.access.opening import Access

ACCOUNTS_SECONDS: Final = 2.0
"""How often it is looked whether ``plain_acl.yml`` has changed."""
REPLICA_ID: Final = 1
"""The id of a replica whose settings are those of a primary."""
EXPIRY_SECONDS: Final = 10.0
"""Between two looks for clients that have been silent for too long."""


class Role(enum.Enum):
    """What a broker is for those who ask it."""

    PRIMARY = "primary"
    """It takes messages and decides transactions. RocketMQ: master."""
    REPLICA = "replica"
    """It has the log of another broker, and answers reads. RocketMQ: slave."""

    def broker_id(self, configured: int) -> int:
        """Under which id name servers know it. ``configured``: brokerId. Source: MixAll.MASTER_ID."""
        return MASTER_ID if self is Role.PRIMARY else configured or REPLICA_ID


def role_of(broker_role: str) -> Role:
    """What ``brokerRole`` says."""
    return Role.REPLICA if broker_role == SLAVE else Role.PRIMARY


@dataclass(frozen=True, slots=True)
class OnDuty:
    """What the duties of a role are made of."""

    parts: Parts
    operations: Operations
    registration: Registration
    access: Access | None
    """None: the broker has no users."""
    client: RemotingClient
    """For requests to other servers."""
    copies: Copies | InSync | None
    """What must have a record beside this broker; None: nothing."""
    joined: Callable[[], None]
    """To be called by a replica whose log is its primary's."""
    group: GroupMember | None
    """None: the settings say who is primary."""
    ahead: Ahead
    """What a replica has read of the log, for the time when it is primary."""


def duties_of(role: Role, on: OnDuty, *, leads: bool = True) -> list[Duty]:
    """The duties of a role, in the order of their starts. ``leads``: a primary decides and delivers."""
    return _LISTS[role](on) if leads or role is not Role.PRIMARY else _of_every_role(on)


def _primary(on: OnDuty) -> list[Duty]:
    parts, operations = on.parts, on.operations
    config, waiting, registries = parts.config, parts.waiting, parts.registries
    clock, timer, popping = parts.outside.clock, waiting.timer, operations.consuming.popping
    duties = [
        Duty("what was delivered", start=waiting.delivered.begin, stop=waiting.delivered.save),
        Duty("selectors", stop=registries.filters.save),
        Duty("consumer offsets", stop=registries.offsets.save),
        Duty("popped messages", start=popping.start, drain=popping.stop, stop=popping.close),
        Duty("transactions", start=waiting.coordinator.start, stop=waiting.coordinator.close),
        Duty("delayed messages", start=waiting.delay.start, drain=waiting.delay.stop, stop=waiting.delay.close),
    ]
    if timer is not None:
        duties.append(Duty("timer messages", start=timer.start, drain=timer.stop, stop=timer.close))
    offsets_s = config.groups.flush_consumer_offset_interval / 1000
    delays_s = config.delay.flush_delay_offset_interval / 1000
    return [
        *duties,
        repeated(clock, offsets_s, "writing consumer offsets", popping.save_offsets),
        repeated(clock, delays_s, "writing delay offsets", waiting.delay.save_later),
        repeated(clock, DELIVERED_SECONDS, "noting what was delivered", waiting.delivered.save_later),
        repeated(clock, LITE_SECONDS, "deleting lite topics", popping.lite_expiry.look),
        repeated(clock, SAVE_SECONDS, "writing selectors", registries.filters.save_later),
        *([] if on.copies is None else noting(clock, parts.store)),
        *([] if on.group is None else _ahead(on)),
        *_of_every_role(on),
        Duty("the log is this broker's own", start=lambda: unmark(parts.store)),
    ]


def _replica(on: OnDuty) -> list[Duty]:
    parts, access = on.parts, on.access
    follows = following(
        parts.config, parts.outside, parts.store, parts.registries, parts.replication, on.client, on.registration,
        on.joined, on.group, access,
    )  # fmt: skip
    notes = [] if on.group is None else noting(parts.outside.clock, parts.store)
    return [*notes, *_ahead(on), *_of_every_role(on), *follows]  # name servers tell where the primary is


def _ahead(on: OnDuty) -> list[Duty]:
    """Of a broker that may have to become primary."""
    look = repeated(on.parts.outside.clock, AHEAD_SECONDS, "reading the log ahead", on.ahead.look)
    return [Duty("what was read ahead", stop=on.ahead.note), look]


def _of_every_role(on: OnDuty) -> list[Duty]:
    """What a broker does whatever its role is."""
    parts, access = on.parts, on.access
    clock = parts.outside.clock
    duties = [
        repeated(clock, LOOK_SECONDS, "looking at the disk", parts.store.room.look),
        repeated(clock, RETENTION_SECONDS, "deleting old log files", parts.retention.run),
        repeated(clock, SAMPLE_SECONDS, "sampling the statistics", parts.statistics.sample),
        repeated(clock, EXPIRY_SECONDS, "removing silent clients", on.operations.members.expire),
    ]
    if access is not None and access.reload is not None:
        duties.append(repeated(clock, ACCOUNTS_SECONDS, "reading the accounts", access.reload))
    return [*duties, Duty("registration", start=on.registration.start, drain=on.registration.close)]


_LISTS: Final[dict[Role, Callable[[OnDuty], list[Duty]]]] = {Role.PRIMARY: _primary, Role.REPLICA: _replica}
"""A replica decides, delivers and asks nothing by itself: it follows its primary."""
