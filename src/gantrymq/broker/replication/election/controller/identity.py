"""The number that Apache's controller gives to a broker, which is a member's identity in its group.

It must stand for a disk, as everywhere here (``disk_identity.py``). So it is kept beside the identity of the disk that
it was given to, and counts for no other one: a broker whose disk was replaced, or restored from a backup, gets a new
number. Apache's brokers keep theirs in ``brokerIdentity``; that file says nothing of the disk, so it is not taken over.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gantrymq.broker.replication.election.controller.calls import Controller, GroupName
from gantrymq.broker.replication.small_file import read_small
from gantrymq.errors import RemoteProtocolError
from gantrymq.runtime.disk import Disk, write_durably

FILE: Final = "gantry/controller"
WITHOUT: Final = "the controller gives this broker a new number then"
ATTEMPTS: Final = 10
"""Other brokers may ask at the same time."""


class _Given(msgspec.Struct, frozen=True):
    """``disk``: the identity of the disk that the number was given to."""

    cluster: str
    name: str
    disk: int
    number: int


async def number_of(controller: Controller, disk: Disk, path: str, identity: int, check_code: str) -> int:
    """The number of the broker whose disk has this identity, from the file at ``path`` or from the controller.
    ``check_code``: nobody else has it. Raises ConfigError when the file is damaged, Unreachable, TimedOut,
    RemoteProtocolError, StoreError or OSError."""
    known = _known(disk, path, controller.group, identity)
    if known is not None:
        return known
    for _ in range(ATTEMPTS):
        number = await controller.next_broker_id()
        if await controller.apply_broker_id(number, check_code):
            _write(disk, path, controller.group, identity, number)
            return number
    raise RemoteProtocolError(
        f"the controller gave {ATTEMPTS} broker ids, and each to another broker; start this again"
    )


def _known(disk: Disk, path: str, group: GroupName, identity: int) -> int | None:
    found = read_small(disk, path, _Given, WITHOUT)
    if found is None or found != _given(group, identity, found.number):
        return None
    return found.number


def _write(disk: Disk, path: str, group: GroupName, identity: int, number: int) -> None:
    write_durably(disk, path, msgspec.json.encode(_given(group, identity, number)))


def _given(group: GroupName, identity: int, number: int) -> _Given:
    return _Given(group.cluster, group.name, identity, number)
