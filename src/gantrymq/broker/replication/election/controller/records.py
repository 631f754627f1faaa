"""What Apache's controller knows of a group, as the record of ``record.py``.

| record        | controller                                                                                        |
|---------------|---------------------------------------------------------------------------------------------------|
| epoch         | masterEpoch                                                                                       |
| primary       | masterBrokerId, masterAddress; ``NOBODY`` while there is none                                     |
| in-sync set   | syncStateSet; its members are the numbers that the controller gave, each to one disk (identity.py)|
| revision      | masterEpoch and syncStateSetEpoch                                                                 |
| ``first``     | CONTROLLER_ELECT_MASTER: the first broker that asks becomes primary                               |
| ``elected``   | the same, while there is no primary; where the controller names this broker already, nothing      |
| ``with_set``  | CONTROLLER_ALTER_SYNC_STATE_SET, which names both epochs: compare-and-set                         |
| ``beaten``    | nothing is written: the controller is asked whether this broker is primary still                  |
| ``yielding``  | CONTROLLER_ELECT_MASTER with the successor: it is primary at once                                 |
"""

from __future__ import annotations

from gantrymq.broker.replication.election.controller.calls import Controller, GroupView
from gantrymq.broker.replication.election.record import NOBODY, Member, Record
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.errors import InvariantViolated, RemoteProtocolError


class ControllerRecords:
    """A ``RecordStore``. ``number``, ``address``: of this broker."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.number = 0
        self.address = ""
        self._registered = False
        self._newest = NEVER

    async def read(self) -> Held:
        """See ``RecordStore``."""
        if not self.number:
            raise InvariantViolated("this broker has no number of the controller yet")
        if not self._registered:
            await self._controller.register(self.number, self.address)
            self._registered = True
        found = await self._controller.view()
        if found is None:
            self._registered = False  # so that the next attempt says why
            raise RemoteProtocolError("the controller does not know this group any more: it has lost its data")
        held = _held(found)
        if held.revision < self._newest:
            raise RemoteProtocolError(
                "the controller gave an older record than before: it does not lead any more, or has lost its data"
            )
        self._newest = held.revision
        return held

    async def replace(self, held: Held, record: Record) -> Held | None:
        """See ``RecordStore``."""
        before = held.record
        wanted = record.yields or record.primary.disk
        if before is None or before.primary == NOBODY:
            changed = await self._controller.elect(self.number, designated=False)
        elif record.yields:
            changed = await self._controller.elect(record.yields, designated=True)
        elif before.primary.disk != self.number:
            return None  # the controller elects when it is time
        elif record.in_sync != before.in_sync and record.epoch == before.epoch:
            changed = await self._controller.alter(self.number, before.epoch, _set_epoch(held.revision), record.in_sync)
        else:
            changed = True
        if not changed:
            return None
        now = await self.read()
        return now if now.record is not None and now.record.primary.disk == wanted else None


def _held(found: GroupView) -> Held:
    if not found.in_sync:
        return Held(None, NEVER)
    number = found.primary
    primary = NOBODY if number is None else Member(number, number, found.address, "")
    return Held(Record(found.epoch, primary, found.in_sync), _revision(found.epoch, found.set_epoch))


def _revision(epoch: int, set_epoch: int) -> int:
    """Grows with each change: the epoch of the set goes on when there is another primary."""
    return epoch << 32 | set_epoch


def _set_epoch(revision: int) -> int:
    return revision & 0xFFFFFFFF
