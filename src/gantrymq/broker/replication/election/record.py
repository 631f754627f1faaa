"""The record that decides who is primary, and the changes that are allowed. Values only.

| change            | epoch | primary | in-sync set                                                       |
|-------------------|-------|---------|-------------------------------------------------------------------|
| ``first``         | 1     | me      | me                                                                |
| ``elected``       | + 1   | me      | the same without the primary before, if enough stay; only a       |
|                   |       |         | member may be elected                                             |
| ``with_set``      | same  | same    | another one, which has the primary                                |
| ``beaten``        | same  | same    | the same: the primary says that it is alive                       |
| ``yielding``      | same  | same    | the same: the primary takes nothing more, and names a successor   |

A member is a disk, and not a machine: a broker that has lost its disk has lost what it confirmed, so it comes back as
somebody else and is not a member. Whatever was acknowledged is on the disk of every member.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from gantrymq.errors import InvariantViolated, RemoteProtocolError

VERSION: Final = 1
"""Of the text of a record."""


@dataclass(frozen=True, slots=True)
class Member:
    """A broker, and where it is."""

    disk: int
    """Identity of its disk."""
    broker_id: int
    address: str
    """``host:port`` for clients."""
    ha_address: str
    """``host:port`` for replicas."""


NOBODY: Final = Member(0, 0, "", "")
"""Of a group that has no primary at the moment. Only Apache's controller has such a record."""


@dataclass(frozen=True, slots=True)
class Record:
    """Who is primary."""

    epoch: int
    """Grows with each primary."""
    primary: Member
    in_sync: frozenset[int]
    """The disks that have everything that was acknowledged."""
    beat: int = 0
    """Grows while the primary is alive."""
    yields: int = 0
    """The disk that is to be primary next, because an operator says so; 0: none."""


def first(me: Member) -> Record:
    """Of a group that has none yet."""
    return Record(1, me, frozenset({me.disk}))


def may_stand(record: Record, disk: int) -> bool:
    """Whether the broker with this disk may become primary."""
    return disk in record.in_sync


def elected(record: Record, me: Member, least: int) -> Record:
    """``me`` is primary. The one before leaves the set, because it is gone; but it stays where fewer than ``least``
    would be left, because then nothing is acknowledged without it, and it may be elected again."""
    if not may_stand(record, me.disk):
        raise InvariantViolated(f"the disk {me.disk} is not in the in-sync set: it may lack what was acknowledged")
    stay = record.in_sync - {record.primary.disk} | {me.disk}
    in_sync = stay if len(stay) >= least else record.in_sync
    return replace(record, epoch=record.epoch + 1, primary=me, in_sync=in_sync, beat=record.beat + 1, yields=0)


def with_set(record: Record, in_sync: frozenset[int]) -> Record:
    """Another in-sync set under the same primary."""
    return replace(record, in_sync=in_sync | {record.primary.disk}, beat=record.beat + 1)


def beaten(record: Record) -> Record:
    """The primary is alive."""
    return replace(record, beat=record.beat + 1)


def yielding(record: Record, disk: int) -> Record:
    """The primary has stopped, and the member with this disk is to take its place."""
    if not may_stand(record, disk):
        raise InvariantViolated(f"the disk {disk} is not in the in-sync set: it may lack what was acknowledged")
    return replace(record, beat=record.beat + 1, yields=disk)


def encode(record: Record) -> bytes:
    """As text: people read it with the tools of the store."""
    fields = {**asdict(record), "in_sync": sorted(record.in_sync), "version": VERSION}
    return json.dumps(fields, sort_keys=True).encode()


def decode(text: bytes) -> Record:
    """Raises RemoteProtocolError when this is not a record."""
    try:
        fields: dict[str, Any] = json.loads(text)
        version = fields["version"]
        if version != VERSION:
            raise RemoteProtocolError(
                f"the record of the group has version {version}, and this GantryMQ knows {VERSION}"
            )
        return Record(
            int(fields["epoch"]),
            Member(**fields["primary"]),
            frozenset(map(int, fields["in_sync"])),
            int(fields["beat"]),
            int(fields.get("yields", 0)),  # a GantryMQ that does not know it writes none
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteProtocolError(f"the record of the group cannot be read ({error!r}): {text[:200]!r}") from error
