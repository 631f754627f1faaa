"""The number that Apache's controller gives to a broker, which is a member's identity in its group.

It must stand for a disk, as everywhere here (``disk_identity.py``). So it is kept beside the identity of the disk that
it was given to, and counts for no other one: a broker whose disk was replaced, or restored from a backup, gets a new
number. Apache's brokers keep theirs in ``brokerIdentity``; that file says nothing of the disk, so it is not taken over.
"""

from __future__ import annotations

import json
from typing import Final

from gantrymq.broker.replication.election.controller.calls import Controller, GroupName
from gantrymq.errors import RemoteProtocolError
from gantrymq.runtime.disk import Disk, read_whole, write_durably

FILE: Final = "gantry/controller"
ATTEMPTS: Final = 10
"""Other brokers may ask at the same time."""


async def number_of(controller: Controller, disk: Disk, path: str, identity: int, check_code: str) -> int:
    """The number of the broker whose disk has this identity, from the file at ``path`` or from the controller.
    ``check_code``: nobody else has it. Raises Unreachable, TimedOut, RemoteProtocolError, StoreError or OSError."""
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
    if not disk.exists(path):
        return None
    found = json.loads(read_whole(disk, path))
    same = (found["cluster"], found["name"], found["disk"]) == (group.cluster, group.name, identity)
    return int(found["number"]) if same else None


def _write(disk: Disk, path: str, group: GroupName, identity: int, number: int) -> None:
    text = json.dumps({"cluster": group.cluster, "name": group.name, "disk": identity, "number": number})
    write_durably(disk, path, text.encode())
