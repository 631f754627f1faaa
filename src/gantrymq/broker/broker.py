"""The broker, put together."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.delay import DelayedDelivery
from gantrymq.broker.delivery.long_polling import HeldPulls
from gantrymq.broker.delivery.pull import Pulls
from gantrymq.broker.delivery.pull_checks import PullChecks
from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.durability import Durability
from gantrymq.broker.operations.admission import Admission
from gantrymq.broker.operations.cleaning import Cleaning
from gantrymq.broker.operations.connections import Connections
from gantrymq.broker.operations.consumer_questions import ConsumerQuestions
from gantrymq.broker.operations.groups import GroupAdministration
from gantrymq.broker.operations.members import Members
from gantrymq.broker.operations.positions import Positions
from gantrymq.broker.operations.progress import Progress
from gantrymq.broker.operations.queries import Queries
from gantrymq.broker.operations.recall import Timers
from gantrymq.broker.operations.reset import Resets
from gantrymq.broker.operations.runtime_info import Figures
from gantrymq.broker.operations.send import Sends
from gantrymq.broker.operations.send_back import SendBacks
from gantrymq.broker.operations.send_batch import BatchSends
from gantrymq.broker.operations.send_half import HalfSends
from gantrymq.broker.operations.settings import LiveConfig
from gantrymq.broker.operations.steered import Steering
from gantrymq.broker.operations.topics import TopicAdministration
from gantrymq.broker.part_settings import store_config, timer_rules, transaction_config
from gantrymq.broker.pop.assembly import Popping
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups, ProducerGroups
from gantrymq.broker.registries.filters import SAVE_SECONDS, ConsumerFilters
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.queue_locks import QueueLocks
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.cleaning import CleaningHandler
from gantrymq.broker.remoting.client_calls import ClientCalls
from gantrymq.broker.remoting.client_config import ClientConfigHandler
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.connections import ConnectionHandler
from gantrymq.broker.remoting.end_transaction import EndTransactionHandler
from gantrymq.broker.remoting.explain import ExplainProcessor
from gantrymq.broker.remoting.group_admin import GroupHandler
from gantrymq.broker.remoting.membership import MembershipHandler
from gantrymq.broker.remoting.name_server_routes import NameServerRoutes
from gantrymq.broker.remoting.pop import PopHandler
from gantrymq.broker.remoting.pop_acks import PopAckHandler
from gantrymq.broker.remoting.pop_assignment import AssignmentHandler
from gantrymq.broker.remoting.positions import PositionHandler
from gantrymq.broker.remoting.progress import ProgressHandler
from gantrymq.broker.remoting.pull import PullHandler
from gantrymq.broker.remoting.query import QueryHandler
from gantrymq.broker.remoting.refusals import rejection
from gantrymq.broker.remoting.relay import RelayHandler
from gantrymq.broker.remoting.request_table import request_table
from gantrymq.broker.remoting.reset import ResetHandler
from gantrymq.broker.remoting.resume import ResumeProcessor
from gantrymq.broker.remoting.runtime_info import RuntimeInfoHandler
from gantrymq.broker.remoting.send import SendHandler
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.broker.remoting.send_back import SendBackHandler
from gantrymq.broker.remoting.send_batch import SendBatchHandler
from gantrymq.broker.remoting.send_reply import SendReplyProcessor
from gantrymq.broker.remoting.settings import SettingsHandler
from gantrymq.broker.remoting.timer import TimerHandler
from gantrymq.broker.remoting.topic_admin import TopicHandler
from gantrymq.broker.remoting.unsupported import refused_codes
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.upkeep.housekeeping import EXPIRY_SECONDS, RETENTION_SECONDS, Housekeeping, Retention
from gantrymq.broker.upkeep.registration import Registration
from gantrymq.broker.upkeep.statistics import SAMPLE_SECONDS, Statistics
from gantrymq.errors import ConfigError, GantryError, LocalProtocolError, StoreError, Unreachable
from gantrymq.protocol.codes import VERSION
from gantrymq.protocol.command import Command
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import UniqueIds
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.server import Handler, RemotingServer
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.network import Network, split_address
from gantrymq.runtime.rng import Rng
from gantrymq.store.message_store import MessageStore

if TYPE_CHECKING:
    from gantrymq.broker.http.server import HttpServer
    from gantrymq.broker.transactions.explanations import TransactionExplanations

log = logging.getLogger("gantrymq.broker")

TOPICS_FILE: Final = "config/topics.json"
GROUPS_FILE: Final = "config/subscriptionGroup.json"
OFFSETS_FILE: Final = "config/consumerOffset.json"
FILTERS_FILE: Final = "config/consumerFilter.json"
FAST_PORT_BELOW: Final = 2
"""A port this far below ``listenPort`` serves producers that want to be apart from consumers, by RocketMQ's rule."""
DELAYS_FILE: Final = "config/delayOffset.json"


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
    ) -> None:
        """Raises ConfigError naming a key that cannot work. Nothing is opened yet.

        ``config_file``: the broker.conf that keeps what tools change while the broker runs.
        """
        self._config = dataclasses.replace(config)  # ours alone: see LiveConfig
        self._config_file = config_file
        self._store_config = store_config(config)
        self._network = network
        self._clock = clock
        self._rng = rng
        self._disk = disk
        self._handlers: dict[int, Handler] = {}
        self._calls = ClientCalls(clock)
        self._server = RemotingServer(
            network,
            clock,
            self._handlers,
            closed=self._session_closed,
            responses=self._calls.answer,
            refusals=dict(refused_codes()),
            rejection=rejection,
            new_session=partial(ClientSession, self._calls),
        )
        self._client = RemotingClient(network, clock, rng)
        self._housekeeping = Housekeeping(clock)
        self.producers = ProducerGroups()
        self.consumers = ConsumerGroups()
        self.locks = QueueLocks()
        self._started = False
        self._opened: MessageStore | None = None
        self.address = ""
        """``ip:port`` that clients are told; empty until started."""
        self.http: HttpServer | None = None
        """The HTTP endpoint, where there is one."""

    async def start(self) -> str:
        """Serve, and return the address. Raises Unreachable (port in use), StoreLocked, StoreFormatUnknown,
        ConfigError; then everything that was opened is closed again.
        """
        listening = await self._server.start(self._config.bind_address, self._config.listen_port)
        # From here to the handlers nothing awaits: whoever connects meanwhile waits in the backlog and is served.
        try:
            self.address = f"{self._config.broker_ip1}:{split_address(listening)[1]}"
            self._open()
        except BaseException:
            await self._server.close()
            if self._opened is not None:
                await self._opened.close()
            raise
        self._started = True
        self._begin()
        await self._listen_fast()
        if self._config.http_port:
            await self._listen_http()
        await self.registration.start()
        log.info("broker %s serves %s from %s", self._config.broker_name, self.address, self._store_config.root)
        return self.address

    async def _listen_fast(self) -> None:
        """Serve the port for clients with the "VIP channel", which take it for granted. Apache's does not pull there;
        ours does everything. Source: BrokerController (fastRemotingServer).
        """
        port = self._config.listen_port - FAST_PORT_BELOW
        if port <= 0:
            return
        try:
            await self._server.start(self._config.bind_address, port)
        except Unreachable as error:
            log.warning("clients with vipChannelEnabled cannot send to this broker: no fast port %d: %s", port, error)

    async def _listen_http(self) -> None:
        from gantrymq.broker.http.endpoint import open_endpoint  # loaded only where it is wanted

        self.http = await open_endpoint(
            self._config, self._network, self._clock, self.address, self.store, self.coordinator, self.explanations
        )

    def _open(self) -> None:
        config, clock, disk = self._config, self._clock, self._disk
        try:
            self._host = pack_host(self.address)
        except LocalProtocolError as error:
            raise ConfigError(f"brokerIP1 is {config.broker_ip1!r}; write a numeric IP address") from error
        self.store = self._opened = MessageStore.open(self._store_config, disk, clock, self._host)
        disk.make_dirs(self.store.path("config"))
        self.topics = Topics(config, disk, clock, self.store.path(TOPICS_FILE))
        self.groups = Groups(
            disk, clock, self.store.path(GROUPS_FILE), auto_create=config.auto_create_subscription_group
        )
        self.offsets = ConsumerOffsets(disk, self.store.path(OFFSETS_FILE), clock.wall_ms())
        self.filters = ConsumerFilters(disk, clock, self.store.path(FILTERS_FILE))
        self.delay = DelayedDelivery(
            self.store, clock, disk, self.store.path(DELAYS_FILE), self._store_config.delays_ms
        )
        self.timer = (
            TimedDelivery(self.store, clock, disk, timer_rules(config), config.mapped_file_size_timer_log)
            if config.timer_wheel_enable
            else None
        )
        self.coordinator = TransactionCoordinator(
            self.store, self.producers, self.topics, self.offsets, clock, disk, transaction_config(config), self._host
        )
        self.coordinator.rebuild()
        self.producers.came.append(self.coordinator.client_came)
        self.producers.joined.append(self.coordinator.producer_joined)
        self.registration = Registration(config, self.topics, self._client, clock, self.address)
        self._build_processors()

    def _build_processors(self) -> None:
        config, clock, store = self._config, self._clock, self.store
        delays_ms = self._store_config.delays_ms
        unique_ids = UniqueIds(self._rng, clock, self._host[:-4], self._rng.below(1 << 16))
        self.statistics = statistics = Statistics(config.broker_cluster_name, clock, store.put_counts)
        self.popping = Popping(
            config, store, self.topics, self.groups, self.offsets, self.consumers,
            NameServerRoutes(config, self._client), clock, self._rng, self._disk, self._host, statistics,
        )  # fmt: skip
        pull_checks = PullChecks(config, self.topics, self.groups, self.consumers, self.filters)
        self._pulls = Pulls(config, store, pull_checks, self.offsets, clock, statistics)
        self._members = Members(
            config, self.topics, self.groups, self.producers, self.consumers, self.filters, self.locks,
            clock,
            self.registration.when_announced,
        )  # fmt: skip
        admission = Admission(config, self.topics, self._rng, self.registration.when_announced)
        durability = Durability(config, store)
        self._retention = Retention(config, store, self._clock, self._keep_from)
        answers = SendAnswers(config, self._host)
        halves = HalfSends(config, admission, self.coordinator)
        timer = timer_rules(config) if self.timer is not None else None
        steering = Steering(self.topics, self.groups, clock, delays_ms, timer)
        self._explain = ExplainProcessor(lambda: self.explanations)
        table = request_table(
            send=SendHandler(Sends(config, admission, durability, halves, steering, unique_ids), answers),
            send_batch=SendBatchHandler(BatchSends(admission, durability, unique_ids), answers),
            send_reply=SendReplyProcessor(config, admission, durability, answers, self.producers, clock, self.address),
            pull=PullHandler(self._pulls),
            positions=PositionHandler(Positions(store, self.topics, self.groups, self.offsets)),
            query=QueryHandler(Queries(store)),
            membership=MembershipHandler(self._members),
            client_config=ClientConfigHandler(config),
            send_back=SendBackHandler(
                SendBacks(store, self.topics, self.groups, self._rng, clock, delays_ms, statistics)
            ),
            topics=TopicHandler(
                TopicAdministration(self.topics, self.offsets, store, statistics, self.registration.when_announced)
            ),
            groups=GroupHandler(GroupAdministration(self.groups, self.offsets)),
            progress=ProgressHandler(
                Progress(
                    config,
                    self.address,
                    store,
                    self.topics,
                    self.groups,
                    self.consumers,
                    self.offsets,
                    statistics,
                    clock,
                )
            ),
            connections=ConnectionHandler(Connections(self.producers, self.consumers, clock)),
            relay=RelayHandler(ConsumerQuestions(config.broker_name, self.consumers, store)),
            reset=ResetHandler(
                Resets(config, store, self.topics, self.groups, self.consumers, self.offsets, self._pulls.held.release)
            ),
            runtime=RuntimeInfoHandler(Figures(store, self.delay, statistics, clock, VERSION)),
            cleaning=CleaningHandler(Cleaning(store, self.topics, self._retention)),
            settings=SettingsHandler(LiveConfig(self._config, self._config_file, self._disk, clock, self._reconfigure)),
            end_transaction=EndTransactionHandler(self.coordinator.ends.end).handle,
            resume_half=ResumeProcessor(store, self.coordinator).resume,
            explain=self._explain.explain,
            list_checks=self._explain.list_checks,
            pop=PopHandler(config, self.popping.requests),
            pop_acks=PopAckHandler(self.popping.acks),
            assignments=AssignmentHandler(self.popping.assignments),
            timer=TimerHandler(
                Timers(config, timer_rules(config), self.timer, durability, self.topics, clock), config.region_id
            ),
        )
        self._handlers.update(table)

    def _reconfigure(self) -> None:
        """Settings changed: tell those who keep some of them in another form."""
        self.groups.auto_create = self._config.auto_create_subscription_group
        self.coordinator.reconfigure(transaction_config(self._config))
        self.topics.permission_changed()

    def _begin(self) -> None:
        config = self._config
        self.coordinator.start()
        self.delay.start()
        self.popping.start()
        if self.timer is not None:
            self.timer.start()
        every = self._housekeeping.every
        every(config.flush_consumer_offset_interval / 1000, "writing consumer offsets", self.popping.save_offsets)
        every(config.flush_delay_offset_interval / 1000, "writing delay offsets", self.delay.save_later)
        every(SAVE_SECONDS, "writing selectors", self.filters.save_later)
        every(RETENTION_SECONDS, "deleting old log files", self._retention.run)
        every(SAMPLE_SECONDS, "sampling the statistics", self.statistics.sample)
        every(EXPIRY_SECONDS, "taking out silent clients", self._members.expire)

    async def close(self) -> None:
        """Stop in the reverse order of the start. Harmless when not started."""
        if not self._started:
            return
        self._started = False
        await self.registration.close()
        await self._housekeeping.close()
        self._pulls.held.close()
        await self.popping.stop_answering()
        await self._explain.close()
        if self.http is not None:
            await self.http.close()
        # First nothing new, then the answers that wait for the disk, then the connections.
        for code in self._handlers:
            self._handlers[code] = _stopping
        if self.timer is not None:
            await self.timer.stop()
        try:
            await self.store.flush_everything()
        except StoreError as error:
            log.error("what waits for the disk is not acknowledged: %s", error)
        await self._server.close()
        timed = (self._close_timer, self.delay.close, self.coordinator.close, self.popping.close)
        for work in (*timed, self.offsets.save, self.filters.save):
            try:
                work()
            except (GantryError, OSError) as error:
                # Each is derived or repeatable; the next start recovers.
                log.error("stopping: %s", error)
        await self.store.close()
        await self._client.close()

    def _close_timer(self) -> None:
        if self.timer is not None:
            self.timer.close()

    def _keep_from(self) -> int | None:
        """Log offset that retention must not pass: the oldest transaction or timer message that is not over."""
        needed: list[int | None] = [self.coordinator.oldest_open_log_offset()]
        if self.timer is not None:
            self.timer.drop_old()
            needed.append(self.timer.oldest_log_offset())
        return min((offset for offset in needed if offset is not None), default=None)

    def _session_closed(self, session: ClientSession) -> None:
        if not self._started:
            return
        self._pulls.held.client_gone(session)
        self.popping.client_gone(session)
        # Before its heartbeats are forgotten: they say whose connection it was.
        self.coordinator.client_gone(session)
        self._members.connection_closed(session)
        self._calls.session_closed(session)

    @cached_property
    def explanations(self) -> TransactionExplanations:
        """What can be told of the transactions here."""
        # Not at the top: 11 ms of a start for what nobody may ever ask.
        from gantrymq.broker.transactions.explanations import TransactionExplanations

        return TransactionExplanations(
            self._config, self.store, self.coordinator, self.producers, self._clock, self.address
        )

    @property
    def held_pulls(self) -> HeldPulls:
        """Pulls that wait for messages."""
        return self._pulls.held

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """What is answered, by request code."""
        return self._handlers


def _stopping(session: ClientSession, command: Command) -> bytes | None:
    raise Refused(Refusal.UNAVAILABLE, "the broker is shutting down; try another one, or later")
