"""What makes a broker a member of a group that elects its primary: the parts that the settings ask for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.outside import Outside
from gantrymq.broker.replication.dialects import GroupPrimary, GroupReplica, Pace, PrimarySide, ReplicaSide
from gantrymq.broker.replication.election.controller.calls import DEAD_MS, LogEnd
from gantrymq.broker.replication.election.controller.membership import ControllerMembership
from gantrymq.broker.replication.election.disk_identity import FILE, boot_of_machine, disk_identity
from gantrymq.broker.replication.election.in_sync import InSync, Limits
from gantrymq.broker.replication.election.leadership import TURNS, Leadership, Terms
from gantrymq.broker.replication.election.record import NOBODY, Member, Record
from gantrymq.broker.replication.election.record_store import RecordStore
from gantrymq.broker.replication.election.told import Told
from gantrymq.broker.replication.epochs import FILE as EPOCHS
from gantrymq.broker.replication.epochs import Epochs
from gantrymq.broker.replication.frames import SILENCE_S
from gantrymq.broker.replication.promotion import joins
from gantrymq.broker.replication.watched import Watched
from gantrymq.broker.write_gate import READ_ONLY
from gantrymq.errors import StoreError
from gantrymq.message.replication import ElectionState, GroupState, MemberState
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.clock import within
from gantrymq.runtime.disk import write_durably
from gantrymq.store.message_store import MessageStore

KNOWN: Final = "gantry/election"
"""In the store: the last record that it knew. If etcd loses its data, not every log may begin anew."""
NOT_ELECTED: Final = "the group has no primary to follow at the moment"
AWAY_S: Final = 1.0
"""A member without a connection for so long leaves the in-sync set."""
BEATS: Final = 6
"""Signs of life on a HA connection, in a lease."""
AGAIN_S: Final = 0.1
"""Between two attempts to follow: a primary whose port is shut is soon noticed."""
JOINED_S: Final = 0.1
"""Behind an election by Apache's controller the set is the new primary alone, and senders wait for the next member."""
TRIES: Final = 6
"""Of the lease that one node of etcd may take."""

Become = Callable[[bool], Awaitable[None]]
"""Changes the role of the broker; True: to primary."""


def records_of(config: LiveConfig) -> RecordStore | None:
    """The record of the group of a broker, where its settings say; None: they name none."""
    settings, identity = config.replication, config.identity
    if not settings.etcd:
        return None
    # loaded only where there is a group
    from gantrymq.broker.replication.election.etcd import EtcdRecords, access_of

    timeout_s = settings.primary_lease / 1000 / TRIES
    return EtcdRecords(
        settings.etcd, identity.broker_cluster_name, identity.broker_name, timeout_s, access_of(settings)
    )


class GroupMember:
    """One broker of a group, from its start to its end."""

    def __init__(
        self, config: LiveConfig, outside: Outside, store: MessageStore, address: str, records: RecordStore,
        watched: Callable[[], Watched], become: Become, primary: Callable[[], tuple[str, str]],
        ready: Callable[[], bool], controller: ControllerMembership | None = None,
    ) -> None:  # fmt: skip
        """``address``: for clients. ``watched``: of the role that the broker has. ``primary``: where name servers know
        one of this name, for clients and for replicas, or nothing. ``ready``: whether it has read its log ahead.
        ``controller``: Apache's, which elects; None: the brokers do."""
        self._ready = ready
        self._known_primary = primary
        settings = config.replication
        self._controller = controller
        self._epochs: Epochs | None = None
        number = config.identity.broker_id
        if controller is None:
            disk = disk_identity(
                store.file_disk, store.path(FILE), outside.rng, boot=boot_of_machine(),
                keeps=config.store.flush_disk_type == "SYNC_FLUSH",
            )  # fmt: skip
        else:
            disk = number = controller.records.number
            self._epochs = Epochs(store.file_disk, store.path(EPOCHS))
            store.truncating.append(self._epochs.cut)
        self.broker_id: Final = number
        """Under which name servers know it while it is a replica."""
        ha_address = address_of(config.network.broker_ip1, settings.ha_listen_port)
        lease_s = (settings.primary_lease if controller is None else DEAD_MS) / 1000
        limits = Limits(
            settings.min_in_sync_replicas, AWAY_S, settings.ha_max_time_slave_not_catchup / 1000, max(lease_s, AWAY_S)
        )
        # Apache's brokers say something every 5 s only.
        self.pace: Final = Pace(lease_s / BEATS, lease_s if controller is None else SILENCE_S, AGAIN_S)
        self._clock = outside.clock
        self._store = store
        self._watched = watched
        self._become = become
        self.leadership: Final = Leadership(
            records, outside.clock,
            Terms(
                lease_s, limits, settings.slave_timeout, begin_s=2 * settings.primary_lease / 1000,
                look_s=lease_s / TURNS if controller is None else JOINED_S,
                elected_by_controller=controller is not None,
            ),
            self, Member(disk, number, address, ha_address),
        )  # fmt: skip
        self._told = Told(store.safety.position)
        self._identity: Final = config.identity
        self._talk: GroupReplica | None = None

    def start(self) -> None:
        if self._controller is not None:
            self._controller.start(self._log_end)
        self.leadership.start()

    async def stop(self) -> None:
        await self.leadership.stop()
        if self._controller is not None:
            await self._controller.stop()

    def _log_end(self) -> LogEnd:
        assert self._epochs is not None
        safety = self._store.safety
        return LogEnd(self._epochs.last, safety.stored, min(safety.position, safety.stored))

    # ---- what the broker is made of

    def in_sync(self) -> InSync:
        """What must hold for a record of a primary beside the disk here."""
        assert self.leadership.in_sync is not None
        return self.leadership.in_sync

    def told(self) -> Told:
        """The same of a replica."""
        self._told = Told(self._store.safety.position)
        return self._told

    def talk_as_primary(self) -> PrimarySide:
        leadership = self.leadership
        return GroupPrimary(
            leadership.epoch, leadership.start_of_epoch, lambda: self._store.safety.position, self._epochs
        )

    def talk_as_replica(self) -> ReplicaSide:
        leadership = self.leadership
        self._talk = GroupReplica(
            leadership.me.disk,
            lambda: leadership.least_epoch,
            lambda end: self._told.confirm(end),
            self._epochs,
            lambda: self._store.appended,
        )
        return self._talk

    def ha_address(self) -> str:
        """Of the primary to follow; empty: nobody is followed at the moment."""
        primary = self.leadership.primary()
        if primary is None or self._controller is None:
            return "" if primary is None else primary.ha_address
        address, ha_address = self._known_primary()  # the controller does not know this port
        return ha_address if address == primary.address else ""

    def address(self) -> str:
        """The same for clients."""
        primary = self.leadership.primary()
        return "" if primary is None else primary.address

    # ---- for those who ask

    def state(self) -> ElectionState:
        """Who is primary, and who else is in the group."""
        leadership, identity = self.leadership, self._identity
        state, record = leadership.state(), leadership.record
        if record is None:
            return state
        leads = bool(leadership.epoch)
        heard = None if self._talk is None else self._talk.start_of_epoch
        start = leadership.start_of_epoch if leads else heard
        return replace(state, group=GroupState(
            identity.broker_cluster_name, identity.broker_name, self.broker_id, record.primary.disk, leads,
            record.beat, self._members(record), start, self._controller is not None,
            () if self._epochs is None else self._epochs.entries,
        ))  # fmt: skip

    def _members(self, record: Record) -> tuple[MemberState, ...]:
        port = self._watched().port
        here = {} if port is None else {one.identity: one.address for one in port.replicas if one.follows}
        if record.primary != NOBODY:
            here[str(record.primary.disk)] = record.primary.address
        disks = sorted({*record.in_sync, *map(int, here)})
        return tuple(
            MemberState(disk, here.get(str(disk), ""), disk in record.in_sync, str(disk) in here) for disk in disks
        )

    # ---- the broker, as it is led

    @property
    def end(self) -> int:
        return self._store.written

    @property
    def stored(self) -> int:
        return self._store.safety.stored

    @property
    def is_own(self) -> bool:
        return joins(self._store) and self.end > 0

    @property
    def sees_primary(self) -> bool:
        return bool(self._known_primary()[0])

    def knew_a_record(self) -> bool:
        return self._store.file_disk.exists(self._store.path(KNOWN))

    def remember(self, record: Record) -> None:
        known = {"epoch": record.epoch, "primary": record.primary.disk}
        write_durably(self._store.file_disk, self._store.path(KNOWN), json.dumps(known).encode())

    async def lead(self) -> None:
        if self._epochs is not None:
            self._epochs.begin(self.leadership.epoch, self._store.appended, self._store.min_log_offset)
        await self._become(True)

    async def follow(self) -> None:
        port = self._watched().port
        if port is not None:
            port.last_s = 0.0  # nobody confirms any more
        await self._become(False)

    @property
    def is_ready(self) -> bool:
        return self._ready()

    @property
    def takes_writes(self) -> bool:
        return not self._store.follows

    async def hold(self, within_s: float) -> bool:
        store = self._store
        store.follow(READ_ONLY)
        confirmed: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()

        def done(error: StoreError | None) -> None:
            if not confirmed.done():
                confirmed.set_result(error)

        async def settled() -> bool:
            await store.flush_everything()
            store.safety.when_safe(store.written, done)
            return await confirmed is None

        try:
            return await within(self._clock, within_s, settled())
        except TimeoutError:
            return False

    def resume(self) -> None:
        self._store.lead()

    def leave(self, reason: str) -> None:
        follower = self._watched().follower
        if follower is not None:
            follower.leave(reason)

    def hears(self, within_s: float) -> bool:
        follower = self._watched().follower
        return follower is not None and follower.hears(within_s)

    @property
    def shut(self) -> str:
        follower = self._watched().follower
        return "" if follower is None else follower.shut
