"""Puts the parts of a broker together, starts them and stops them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from gantrymq.access.counts import Refusals
from gantrymq.access.metrics import declare_access
from gantrymq.broker.client import Connection
from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.long_polling import HeldPulls
from gantrymq.broker.delivery.timer_metrics import declare_timer
from gantrymq.broker.derived_state import DerivedState
from gantrymq.broker.door import Door, Ground, Served
from gantrymq.broker.doors import MakeDoors, doors_of
from gantrymq.broker.durability import Durability
from gantrymq.broker.duty import Duties
from gantrymq.broker.listeners import Listeners
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.metrics.declared import metrics_of
from gantrymq.broker.operations.settings import SettingsAdministration
from gantrymq.broker.outside import Outside, Place
from gantrymq.broker.part_settings import store_config, timer_rules
from gantrymq.broker.parts import Parts, open_waiting, operations_of
from gantrymq.broker.pop.ledger import invisible
from gantrymq.broker.pop.metrics import declare_pop
from gantrymq.broker.registries.registries import Registries, open_registries
from gantrymq.broker.replication.ahead import Ahead
from gantrymq.broker.replication.copies import Copies, Unjoined
from gantrymq.broker.replication.duties import copies_of, port_of
from gantrymq.broker.replication.election.controller.membership import controller_of
from gantrymq.broker.replication.election.in_sync import InSync
from gantrymq.broker.replication.election.member import GroupMember, records_of
from gantrymq.broker.replication.election.record_store import RecordStore
from gantrymq.broker.replication.metrics import declare_replication
from gantrymq.broker.replication.port import Port
from gantrymq.broker.replication.promotion import is_of_another, joins, mark, mark_joined, take_over
from gantrymq.broker.replication.watched import Watched
from gantrymq.broker.roles import OnDuty, Role, duties_of, role_of
from gantrymq.broker.upkeep.name_server_routes import NameServerRoutes
from gantrymq.broker.upkeep.registration import Registration
from gantrymq.broker.upkeep.retention import Retention
from gantrymq.broker.upkeep.statistics import Statistics
from gantrymq.broker.write_gate import NOT_CONFIRMED, READ_ONLY, WriteGate
from gantrymq.errors import ConfigError, LocalProtocolError, StoreError, StoreUnavailable, Unreachable
from gantrymq.observability.event_loop import declare_event_loop
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.addresses import address_of, split_address
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.loop_watch import LoopWatch
from gantrymq.runtime.network import Network
from gantrymq.runtime.rng import Rng
from gantrymq.runtime.tasks import TaskGroupOwner
from gantrymq.store.log.conditions import Condition
from gantrymq.store.message_store import MessageStore

if TYPE_CHECKING:
    from gantrymq.access.guard import Guard
    from gantrymq.access.opening import Access
    from gantrymq.broker.users import Users

log = logging.getLogger("gantrymq.broker")

USERS_FOLDER: Final = "config/auth"
"""In the store: users and policies, unless ``authConfigPath`` names another folder."""


class Broker:
    """Stores messages and hands them out.

    ``start`` opens the store (with recovery) and listens; ``close`` says goodbye, stops, and closes the store. Both are
    called once. Killing the process at any moment loses nothing that was acknowledged with SYNC_FLUSH.
    """

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        clock: Clock,
        rng: Rng,
        disk: Disk,
        *,
        config_file: str = "",
        conditions: Sequence[Condition] = (),
        access: Access | None = None,
        own_ip: str = "",
        doors: MakeDoors = doors_of,
        role: Role | None = None,
        records: RecordStore | None = None,
    ) -> None:
        """Raises ConfigError naming a key that cannot work. Nothing is opened yet.

        ``config_file``: the broker.conf that keeps what tools change while the broker runs. ``conditions``: what else,
        beside the disk here, must confirm a record before it counts as stored; see ``LogSafety``. ``access``: users
        that are open already; None: this broker opens its own, if the settings say that it has users. ``own_ip``: the
        IP address that records and offset message ids contain, needed where brokerIP1 is a host name. ``doors``: makes
        the protocols through which clients reach this broker. ``role``: what it is from its start on, see ``become``;
        None: what ``brokerRole`` says. ``records``: of the group that elects its primary; None: that of ``etcdAddr``.
        """
        self._own_ip = own_ip or config.network.broker_ip1
        self._config = LiveConfig(config)
        self._config_file = config_file
        self._conditions = tuple(conditions)
        self._copies: Copies | InSync | None = None
        self.group: GroupMember | None = None
        """Elects the primary; None: the settings say who it is."""
        self._port: Port | None = None
        self.leads = False
        """Whether this is a primary that takes writes: see ``_take``."""
        self._store_config = store_config(config)
        self._outside = Outside(network, clock, rng, disk)
        self.client_limits: Final = ClientLimits(clock, config.network.limits)
        """The limits of clients, for all doors."""
        self._config.changed.append(lambda: self.client_limits.change(self._config.network.limits))
        self.doors: Final = doors(Ground(self._config, self._outside, self.client_limits))
        """The protocols that it speaks; the address of the first one is told to clients."""
        self.loop_watch: Final = LoopWatch(clock, self._last_request)
        """Measures how long the event loop stands still; whoever runs this broker starts it."""
        self._client = RemotingClient(network, clock, rng, account=_inner_account(config))
        self._controller = controller_of(self._config, self._outside, self._client)
        if records is None:
            records = records_of(self._config) if self._controller is None else self._controller.records
        self._records = records
        self._access = access
        self._started = False
        self.role = role_of(config.identity.broker_role) if role is None else role
        """What this broker is at the moment."""
        self._named = config.identity.broker_role
        """``brokerRole`` as it was when this role was prepared: see ``_confirm``."""
        self._changing = asyncio.Lock()
        self._tasks = TaskGroupOwner("broker")
        self._config.changed.append(self._settings_changed)
        self._counters = MessageCounters()
        self._opened: MessageStore | None = None
        self.address = ""
        """``host:port`` that clients are told; empty until started."""

    async def start(self) -> str:
        """Serve, and return the address. Raises Unreachable (port in use), StoreLocked, StoreFormatUnknown,
        ConfigError; then everything that was opened is closed again. Whoever cancels this call calls ``close``.
        """
        try:
            if self._controller is not None:
                await self._controller.identify(self._store_config.root)
            for door in self.doors:
                await door.listen()
            # From here on nothing awaits before each door serves.
            port = split_address(self.doors[0].address)[1]
            self.address = address_of(self._config.network.broker_ip1, port)
            self._open()
            self._confirm(is_primary=self.role is Role.PRIMARY)
            self._take(self.role)
        except BaseException:
            await self._close_doors()
            if self._opened is not None:
                await self._opened.close()
            raise
        self._started = True
        try:
            async with self._changing:  # clients come already, and one may be an operator who changes the role
                await self._start_duties()
        except Exception:
            await self.close()
            raise
        if self.group is not None:
            self.group.start()
        log.info(
            "broker %s serves %s from %s", self._config.identity.broker_name, self.address, self._store_config.root
        )
        return self.address

    async def _close_doors(self) -> None:
        for door in reversed(self.doors):
            await door.close()

    def _open(self) -> None:
        config, clock, disk = self._config, self._outside.clock, self._outside.disk
        try:
            place = Place(self.address, pack_host(address_of(self._own_ip, split_address(self.address)[1])))
        except LocalProtocolError as error:
            raise ConfigError(
                f"brokerIP1 is {config.network.broker_ip1!r}, which is not an IP address; records need one: give own_ip"
            ) from error
        self.store = store = self._opened = MessageStore.open(
            self._store_config, disk, clock, place.host, conditions=self._conditions,
            waits=self._records is not None
            or self.role is Role.REPLICA
            or copies_of(config, is_primary=True) is not None,
        )  # fmt: skip
        disk.make_dirs(store.path("config"))
        if self._access is None and config.access.is_on:
            from gantrymq.access.opening import open_access  # loaded only where there are users

            folder, cluster = store.path(USERS_FOLDER), config.identity.broker_cluster_name
            self._access = open_access(
                config.access,
                store.file_disk,
                folder=folder,
                config_file=self._config_file,
                cluster=cluster,
                clock=clock,
            )
        if self._controller is not None:
            self._controller.serve(self.address)
        if self._records is not None:
            self.group = GroupMember(
                config, self._outside, store, self.address, self._records, lambda: self._watched,
                lambda leads: self.become(Role.PRIMARY if leads else Role.REPLICA),
                lambda: self.registration.primary, lambda: self._ahead.is_done, self._controller,
            )  # fmt: skip
        self._place = place
        self._registries = registries = open_registries(config, store.file_disk, clock, store.path)
        self.topics, self.groups, self.offsets = registries.topics, registries.groups, registries.offsets
        self.producers, self.consumers = registries.producers, registries.consumers
        self.filters = registries.filters
        derived = DerivedState(
            store, disk, self.offsets, timer_rules(config.current).precision_ms,
            config.delay.mapped_file_size_timer_log,
        )  # fmt: skip
        store.truncating.append(derived.forget_behind)
        self._ahead = Ahead(store, disk)
        store.truncating.append(self._ahead.forget)

    def _confirm(self, *, is_primary: bool) -> None:
        """Begin to wait for what the settings or the group name, or for nothing."""
        config, store, group = self._config, self.store, self.group
        self._named = config.identity.broker_role
        others: Condition | None
        if group is None:
            others = self._copies = copies_of(config, is_primary)
            if not is_primary and store.waits and (joins(store) or not is_of_another(store)):
                others = Unjoined()
        elif is_primary:
            others = self._copies = group.in_sync()
        else:
            self._copies = None
            others = group.told()
        store.require([*self._conditions, *([] if others is None else [others])])
        connections = self.client_limits.connections
        self._port = None
        if is_primary:
            self._port = port_of(config, self._outside, store, self._copies, connections, group, self._access)

    def _joined(self) -> None:
        """The log of this replica is its primary's."""
        mark_joined(self.store)
        if self.group is None and self.store.waits:
            self.store.require(self._conditions)

    def _take(self, role: Role) -> None:
        """Make what works on the open store as this role does, and let the doors serve it.

        A primary leads: it takes writes, decides and delivers. It does not yet while its log holds something that no
        replica has confirmed: there may be decisions and deliveries among it that nobody may see or repeat.
        """
        config, clock, store, registries = self._config, self._outside.clock, self.store, self._registries
        is_primary = role is Role.PRIMARY
        leads = self.leads = is_primary and (self._copies is None or store.safety.position == store.written)
        if leads:
            store.lead()
        elif is_primary:
            store.follow(NOT_CONFIRMED)
            log.warning(
                "%d bytes of the log are not confirmed by a replica: %s", store.written - store.safety.position,
                NOT_CONFIRMED,
            )  # fmt: skip
            store.safety.when_safe(store.written, self._all_confirmed)
        else:
            store.follow(READ_ONLY)
            mark(store)
        promoted = leads and is_of_another(store)
        if promoted or not is_primary or self.group is not None:
            self._ahead.load()
        self._listeners = Listeners(self._heard)
        if leads:
            registries.lead(0 if self.group is None else self.group.leadership.epoch)
        else:
            registries.follow()
        ahead = self._ahead.decisions if promoted else None
        waiting = open_waiting(
            config, self._outside, self._place, store, registries, primary=leads, promoted=promoted, ahead=ahead
        )  # fmt: skip
        self.delay, self.timer, self.coordinator = waiting.delay, waiting.timer, waiting.coordinator
        self.delivered = waiting.delivered
        if promoted:
            take_over(store, registries.topics, self.coordinator.table)
        self.registration = Registration(
            config,
            self.topics,
            self._client,
            clock,
            self.address,
            role.broker_id(config.identity.broker_id if self.group is None else self.group.broker_id),
        )
        counters = self._counters
        self.metrics = metrics_of(
            config, clock, store, registries, self.coordinator, counters, self.client_limits,
            lambda: invisible(self.popping.consumption.revive_log.ledger),
        )  # fmt: skip
        watched = self._watched = Watched(
            store,
            is_primary,
            lambda: None if self.group is None else self.group.state(),
            None if self.group is None else self.group.leadership.hand_over,
            None if self.group is None else self.group.leadership.told,
        )
        watched.port = self._port
        declare_access(self.metrics, Refusals() if self._access is None else self._access.guard.refusals)
        declare_event_loop(self.metrics, self.loop_watch)
        self.statistics = Statistics(config.identity.broker_cluster_name, clock, self.metrics)
        held = is_primary and not leads  # what is open is not known yet
        self._retention = Retention(config, store, clock, (lambda: store.min_log_offset) if held else waiting.keep_from)
        self._serve(
            Parts(
                config,
                self._outside,
                self._place,
                store,
                registries,
                waiting,
                self.metrics,
                counters,
                self.statistics,
                Durability(config, store),
                self._retention,
                self.registration.when_announced,
                watched,
                self._users(registries),
            ),
            role,
        )

    def _heard(self) -> list[list[Any]]:
        """The lists that parts of one role put their listeners into."""
        return [
            *self.store.listeners(), self._config.changed, self.topics.changed, self.offsets.saving,
            self.producers.came, self.producers.joined, self.store.safety.grown,
        ]  # fmt: skip

    def _users(self, registries: Registries) -> Users | None:
        if self._access is None:
            return None
        from gantrymq.broker.users import users_of

        trace_topic = self._config.topics.msg_trace_topic_name
        return users_of(self._access, trace_topic, registries, self.store, self.coordinator)

    def _serve(self, parts: Parts, role: Role) -> None:
        settings = SettingsAdministration(parts.config, self._config_file, self._outside.disk, self._outside.clock)
        self.operations = operations_of(
            parts, settings, NameServerRoutes(parts.config, self._client, self._outside.clock)
        )
        self.popping = self.operations.consuming.popping
        if self.timer is not None:
            declare_timer(self.metrics, self.timer, self.topics)
        declare_pop(self.metrics, self.popping.consumption.revive_log)
        refuses = "" if self.leads else NOT_CONFIRMED if role is Role.PRIMARY else READ_ONLY
        served = Served(parts.place, self.operations, self, self.metrics, WriteGate(refuses))
        for door in self.doors:
            door.serve(served)
        on = OnDuty(
            parts,
            self.operations,
            self.registration,
            self._access,
            self._client,
            self._copies,
            self._joined,
            self.group,
            self._ahead,
        )
        declare_replication(self.metrics, parts.replication)
        self.duties = Duties(duties_of(role, on, leads=self.leads))

    async def _start_duties(self) -> None:
        await self.duties.start()
        if self._port is not None:
            try:
                await self._port.start()
            except Unreachable:
                await self.duties.drain()
                await self.duties.stop()
                raise
            self.store.safety.grown.append(self._port.grown)

    async def _stop_duties(self) -> None:
        if self._port is not None:
            await self._port.stop()
        await self.duties.stop()

    def _all_confirmed(self, error: StoreError | None) -> None:
        if error is None:
            self._tasks.start("lead", self._lead())

    async def _lead(self) -> None:
        """A replica has confirmed what was in the log at the start. The replicas stay connected."""
        async with self._changing:
            if not self._started or self.leads or self.role is not Role.PRIMARY:
                return
            begun = self._outside.clock.monotonic()
            await self._read_ahead()
            await self.duties.drain()
            await self._change(self.role, lambda: None)
            await self.duties.start()
            log.info(
                "a replica has everything; broker %s takes writes, after %.2f s", self._config.identity.broker_name,
                self._outside.clock.monotonic() - begun,
            )  # fmt: skip
            if self._port is not None:
                self.store.safety.grown.append(self._port.grown)

    async def _read_ahead(self) -> None:
        """So that little is left to be read while nothing else happens."""
        if is_of_another(self.store):
            await self._ahead.finish(self._outside.clock)

    async def _change(self, role: Role, between: Callable[[], None]) -> None:
        """Take a role in the place of one whose duties are drained. ``between``: called when nothing works."""
        await self.duties.stop()
        self._listeners.remove()
        before, self.role = self.operations.consuming, role
        between()
        self._take(role)
        # Those who wait for messages ask again, and then wait for what the new parts hear of.
        before.pulls.held.release_all()
        before.popping.release_all()
        await before.popping.stop_answering()

    async def become(self, role: Role) -> None:
        """Change the role of this running broker; clients stay connected. Returns when no duty of the old role goes on
        and those of the new one have begun.

        A primary that becomes a replica first ends what is under way. Whoever waits for the confirmation of somebody
        else is told that it is not known. A replica that becomes primary reads everything that is derived anew, from
        the log as it is then. Raises the error of a duty that cannot start, or StoreError; then close the broker.
        """
        async with self._changing:
            if (role is self.role and self._named == self._config.identity.broker_role) or not self._started:
                return
            log.warning("broker %s becomes a %s", self._config.identity.broker_name, role.value)
            if role is Role.PRIMARY:
                await self._read_ahead()
            await self.duties.drain()
            self.store.follow(READ_ONLY)
            await self.store.flush_everything()
            doubtful = self.store.safety.resign(StoreUnavailable(READ_ONLY))
            if doubtful is not None:  # it is in the log, although those who waited count it as failed
                self.coordinator.doubt()
                self.delivered.doubtful_from = doubtful
            if self._port is not None:
                await self._port.stop()
            await self._change(role, lambda: self._confirm(is_primary=role is Role.PRIMARY))
            await self._start_duties()

    def _settings_changed(self) -> None:
        if self._started and self._config.identity.broker_role != self._named:
            self._tasks.start("new role", self._follow_settings())

    async def _follow_settings(self) -> None:
        """``brokerRole`` was changed while this broker runs. It may be changed again before that is done: an operator
        who sees that nobody can take over makes this broker primary again."""
        try:
            named = ""
            while named != self._config.identity.broker_role:
                named = self._config.identity.broker_role
                await self.become(role_of(named))
        except Exception as error:
            self.store.follow(f"{READ_ONLY}; it could not take its new role ({error}), restart it")
            log.critical("the role could not be changed, and nothing is taken any more: restart this broker: %s", error)
            raise

    async def close(self) -> None:
        """Stop in the reverse order of the start. Harmless when not started."""
        if not self._started:
            return
        self._started = False
        if self.group is not None:
            await self.group.stop()
        await self._tasks.stop()
        await self.duties.drain()
        self.held_pulls.close()
        await self.popping.stop_answering()
        # First nothing new, then the answers that wait for the disk, then the connections.
        for door in self.doors:
            await door.refuse()
        try:
            await self.store.flush_everything()
        except StoreError as error:
            log.error("what waits for the disk is not acknowledged: %s", error)
        self.store.safety.give_up()
        await self._close_doors()
        await self._stop_duties()
        await self.store.close()
        await self._client.close()

    def client_gone(self, connection: Connection, *, by_peer: bool = False) -> None:
        """The connection of a client ended, whatever door it came through. ``by_peer``: not this broker ended it."""
        if not self._started:
            return
        self.held_pulls.client_gone(connection)
        self.popping.client_gone(connection)
        # Before its heartbeats are forgotten: they say whose connection it was.
        self.coordinator.client_gone(connection)
        self.operations.members.connection_closed(connection, by_peer=by_peer)
        for door in self.doors:
            door.forget(connection)

    def _last_request(self) -> str:
        return next(filter(None, (door.last_request() for door in self.doors)), "")

    def door(self, name: str) -> Door | None:
        """The door with this name; None: there is none."""
        return next((door for door in self.doors if door.name == name), None)

    @property
    def held_pulls(self) -> HeldPulls:
        """Pulls that wait for messages."""
        return self.operations.consuming.pulls.held

    @property
    def guard(self) -> Guard | None:
        """Decides what users may do; None: there are no users."""
        return None if self._access is None else self._access.guard


def _inner_account(config: BrokerConfig) -> Account | None:
    """As whom the broker signs its requests to name servers; None: it does not."""
    account = config.access.inner_account()
    return None if account is None else Account(*account)
