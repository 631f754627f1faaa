"""Bodies about replicas and groups. Source: HARuntimeInfo, BrokerReplicasInfo, EpochEntryCache; reference
"replication", sections 4 and 5."""

from __future__ import annotations

from typing import Final

import msgspec

from gantrymq.protocol.body import Body

MAX_GAP_NOT_IN_SYNC: Final = 256 * 1024 * 1024
"""A replica that is behind by less counts as in sync. Source: MessageStoreConfig.haMaxGapNotInSync."""


class HAConnection(Body, frozen=True, kw_only=True):
    """A replica, as its primary sees it. Source: HAConnectionRuntimeInfo."""

    addr: str = ""
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transfer_from_where: int = 0
    transferred_byte_in_second: int = 0
    """Ours do not measure it."""


class HAClient(Body, frozen=True, kw_only=True):
    """A replica, as it sees itself. Source: HAClientRuntimeInfo."""

    master_addr: str = ""
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    transferred_byte_in_second: int = 0
    """Ours do not measure it."""
    is_activated: bool = False
    state: str | None = None
    """Of ours: what it does, for people. Apache's say nothing here."""
    problem: str | None = None
    """Of ours: why it does not follow."""


class Election(Body, frozen=True, kw_only=True):
    """Of ours: who is primary of a broker group that elects it."""

    epoch: int = 0
    primary: str = ""
    in_sync: int = 0
    is_member: bool = False
    problem: str | None = None
    disk: int = 0
    """Identity of this broker's disk, by which CONTROLLER_ELECT_MASTER names it; 0: a version that cannot say it."""
    takes_writes: bool = False
    """Of a primary: its replicas have confirmed what was in its log when it was elected."""


class HAStatus(Body, frozen=True, kw_only=True):
    """The answer to GET_BROKER_HA_STATUS."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnection] = msgspec.field(default_factory=list)
    ha_client_runtime_info: HAClient | None = None
    election: Election | None = None
    """Of ours; None: the settings say who is primary."""


class ReplicaIdentity(Body, frozen=True, kw_only=True):
    """A broker of a group. Source: BrokerReplicasInfo.ReplicaIdentity."""

    broker_name: str
    broker_id: int
    """Ours: the identity of its disk, as in the handshake of the AutoSwitch protocol."""
    broker_address: str
    alive: bool


class GroupReplicas(Body, frozen=True, kw_only=True):
    """A group. Source: BrokerReplicasInfo.ReplicasInfo."""

    master_broker_id: int | None = None
    """None: there is no master at the moment."""
    master_address: str | None = None
    master_epoch: int = 0
    sync_state_set_epoch: int = 0
    in_sync_replicas: list[ReplicaIdentity] = msgspec.field(default_factory=list)
    not_in_sync_replicas: list[ReplicaIdentity] = msgspec.field(default_factory=list)


class ReplicasOfGroups(Body, frozen=True, kw_only=True):
    """The answer to CONTROLLER_GET_SYNC_STATE_DATA. Source: BrokerReplicasInfo."""

    replicas_info_table: dict[str, GroupReplicas]


class SyncStateSet(Body, frozen=True, kw_only=True):
    """Of CONTROLLER_ALTER_SYNC_STATE_SET. Source: SyncStateSet."""

    sync_state_set: list[int]
    sync_state_set_epoch: int
    """In a request: on which it is based."""


class EpochEntry(Body, frozen=True, kw_only=True):
    """Log offsets of an epoch. Source: EpochEntry."""

    epoch: int
    start_offset: int
    end_offset: int


class EpochEntryCache(Body, frozen=True, kw_only=True):
    """The answer to GET_BROKER_EPOCH_CACHE."""

    cluster_name: str
    broker_name: str
    broker_id: int
    epoch_list: list[EpochEntry]
    max_offset: int
