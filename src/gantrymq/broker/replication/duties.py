"""What replication adds to the duties of a role (``broker/roles.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.access.opening import Access
from gantrymq.broker.config_sections import SYNC_MASTER
from gantrymq.broker.duty import Duty, repeated
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.outside import Outside
from gantrymq.broker.registries.registries import Registries
from gantrymq.broker.replication.authentication import Demand, ReplicaAuthentication
from gantrymq.broker.replication.copies import Copies
from gantrymq.broker.replication.dialects import DEFAULT_PACE, DefaultPrimary, DefaultReplica
from gantrymq.broker.replication.election.in_sync import InSync
from gantrymq.broker.replication.election.member import NOT_ELECTED, GroupMember
from gantrymq.broker.replication.port import Port
from gantrymq.broker.replication.promotion import joins
from gantrymq.broker.replication.replica import NOT_KNOWN, Follower
from gantrymq.broker.replication.surplus import keep
from gantrymq.broker.replication.tables import Tables
from gantrymq.broker.replication.watched import Watched
from gantrymq.broker.upkeep.registration import Registration
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.addresses import address_of, split_address
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.connections import OpenConnections
from gantrymq.store.message_store import MessageStore

NOTE_S: Final = 1.0
"""So many seconds of messages wait for a replica again after a crash."""


class JoiningStore:
    """The store of a replica, as it joins a primary (``replica.Joining``)."""

    def __init__(
        self, config: LiveConfig, outside: Outside, store: MessageStore, joined: Callable[[], None], *, elected: bool
    ) -> None:
        """``joined``: called whenever the log is known to be the primary's. ``elected``: the primary has everything
        that was acknowledged, because it was elected."""
        self._elected = elected
        self._config = config
        self._outside = outside
        self._store = store
        self.joined = joined

    def may_cut(self) -> bool:
        """What a former primary wrote alone is cut; what came from a primary only if the settings say so."""
        return self._elected or joins(self._store) or self._config.replication.ha_cut_surplus

    def keep(self, position: int) -> str:
        path, count = keep(self._store, self._outside.disk, position, self._outside.clock.wall_ms())
        return f"{count} records, listed in {path}"


def copies_of(config: LiveConfig, is_primary: bool) -> Copies | None:
    """What a broker waits for beside its disk, if it is a SYNC_MASTER; None: for nothing."""
    settings = config.replication
    if not is_primary or config.identity.broker_role != SYNC_MASTER or settings.in_sync_replicas < 2:
        return None
    return Copies(settings.in_sync_replicas - 1, settings.slave_timeout)


def port_of(
    config: LiveConfig,
    outside: Outside,
    store: MessageStore,
    copies: Copies | InSync | None,
    connections: OpenConnections,
    group: GroupMember | None,
    access: Access | None,
) -> Port | None:
    """Of a primary: its HA port, if it has one. ``connections``: counts those of all ports. ``access``: users of this
    broker."""
    settings = config.replication
    if not settings.ha_listen_port:
        return None
    return Port(
        outside.network, outside.clock, store, config.network.bind_address, settings.ha_listen_port, settings.allowed,
        copies, connections, settings.slave_timeout / 1000, DefaultPrimary if group is None else group.talk_as_primary,
        DEFAULT_PACE if group is None else group.pace,
        Demand(None if access is None else access.guard, settings.allowed, group is not None, outside.rng.token),
    )  # fmt: skip


def noting(clock: Clock, store: MessageStore) -> list[Duty]:
    """Of a primary that waits for others: what they have confirmed is visible at once after a crash."""
    return [
        repeated(clock, NOTE_S, "noting what replicas have", store.note_confirmed),
        Duty("what replicas have", stop=store.note_confirmed),
    ]


def following(
    config: LiveConfig, outside: Outside, store: MessageStore, registries: Registries, watched: Watched,
    client: RemotingClient, registration: Registration, joined: Callable[[], None], group: GroupMember | None,
    access: Access | None,
) -> list[Duty]:  # fmt: skip
    """Of a replica: its log, and its tables. ``joined``: see ``JoiningStore``. ``access``: users of this broker."""

    def ha_address() -> str:
        if group is not None:
            return group.ha_address()
        return config.replication.ha_master_address or registration.primary[1]

    def address() -> str:
        """For clients. Where no name server knows it: the port below the HA port, which is the usual place of it."""
        if group is not None:
            return group.address()
        if registration.primary[0] or not config.replication.ha_master_address:
            return registration.primary[0]
        host, port = split_address(config.replication.ha_master_address)
        return address_of(host, port - 1)

    def look() -> None:
        registration.look_for_primary()
        if group is not None:
            group.leadership.look()  # the primary may be gone, or may have handed over

    inner = config.access.inner_account()
    account = None if inner is None else Account(*inner)

    def authenticate() -> ReplicaAuthentication | None:
        if group is not None and account is None:
            return None
        return ReplicaAuthentication(account, outside.rng.token, other_primaries=group is None)

    joining = JoiningStore(config, outside, store, joined, elected=group is not None)
    follower = watched.follower = Follower(
        outside.network, outside.clock, store, ha_address, joining,
        look,
        DefaultReplica if group is None else group.talk_as_replica, DEFAULT_PACE if group is None else group.pace,
        NOT_KNOWN if group is None else NOT_ELECTED, authenticate,
    )  # fmt: skip
    tables = Tables(client, outside.clock, store, registries, address, access)

    def start() -> None:
        store.safety.grown.append(follower.grown)
        follower.start()

    return [Duty("following", start=start, stop=follower.stop), Duty("tables", start=tables.start, stop=tables.stop)]
