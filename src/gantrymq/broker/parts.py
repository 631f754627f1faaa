"""What a broker is made of, and the operations that are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gantrymq.broker.announcement import Announce
from gantrymq.broker.delivery.delay import DELAYS_FILE, DelayedDelivery
from gantrymq.broker.delivery.delivered import Delivered
from gantrymq.broker.delivery.pull import Pulls
from gantrymq.broker.delivery.pull_checks import PullChecks
from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.durability import Durability
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.operations.admission import Admission, stamp_of
from gantrymq.broker.operations.cleaning import Cleaning
from gantrymq.broker.operations.connections import Connections
from gantrymq.broker.operations.consumer_questions import ConsumerQuestions
from gantrymq.broker.operations.delays_and_retries import DelaysAndRetries
from gantrymq.broker.operations.end_by_id import EndsById
from gantrymq.broker.operations.explaining import Explaining
from gantrymq.broker.operations.groups import GroupAdministration
from gantrymq.broker.operations.handover import Handovers
from gantrymq.broker.operations.lite_sends import LiteSends
from gantrymq.broker.operations.members import Members
from gantrymq.broker.operations.operations import Administration, Consuming, Operations, Sending
from gantrymq.broker.operations.positions import Positions
from gantrymq.broker.operations.progress import ProgressQuestions
from gantrymq.broker.operations.queries import Queries
from gantrymq.broker.operations.recall import Timers
from gantrymq.broker.operations.reply import Replies
from gantrymq.broker.operations.reset import Resets
from gantrymq.broker.operations.runtime_info import Figures
from gantrymq.broker.operations.send import Sends
from gantrymq.broker.operations.send_back import SendBacks
from gantrymq.broker.operations.send_batch import BatchSends
from gantrymq.broker.operations.send_half import HalfSends
from gantrymq.broker.operations.send_halves import HalvesSends
from gantrymq.broker.operations.settings import SettingsAdministration
from gantrymq.broker.operations.summaries import Overviews
from gantrymq.broker.operations.table_changes import TableChanges
from gantrymq.broker.operations.table_copies import MODES, ORDER, TableCopies
from gantrymq.broker.operations.topics import TopicAdministration
from gantrymq.broker.outside import Outside, Place
from gantrymq.broker.part_settings import store_config, timer_rules, transaction_config
from gantrymq.broker.pop.assembly import Popping
from gantrymq.broker.pop.assignments import RouteSource
from gantrymq.broker.pop.ledger import invisible
from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.registries.registries import Registries
from gantrymq.broker.replication.watched import Watched
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.transactions.resume import ResumeOperation
from gantrymq.broker.upkeep.retention import Retention
from gantrymq.broker.upkeep.statistics import Statistics
from gantrymq.message.versions import VERSION
from gantrymq.observability.metrics import Metrics
from gantrymq.protocol.message_ids import UniqueIds
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.decisions_ahead import DecisionsAhead

if TYPE_CHECKING:
    from gantrymq.broker.transactions.explanations import TransactionExplanations
    from gantrymq.broker.users import Users


@dataclass(frozen=True, slots=True)
class WaitingMessages:
    """What keeps messages that consumers do not get yet, and brings them to their topics."""

    delay: DelayedDelivery
    timer: TimedDelivery | None
    """None when the broker takes no timer messages."""
    coordinator: TransactionCoordinator
    delivered: Delivered
    """What was delivered, and is not counted in the files of ``delay`` and ``timer``."""
    time: SteadyTime
    """By which waits are counted."""

    def keep_from(self) -> int | None:
        """Log offset that retention must not pass: the oldest transaction or timer message that is not over."""
        needed: list[int | None] = [self.coordinator.oldest_open_log_offset()]
        if self.timer is not None:
            self.timer.drop_old()
            needed.append(self.timer.oldest_log_offset())
        return min((offset for offset in needed if offset is not None), default=None)


@dataclass(frozen=True, slots=True)
class Parts:
    """An open store and what works on it."""

    config: LiveConfig
    outside: Outside
    place: Place
    store: MessageStore
    registries: Registries
    waiting: WaitingMessages
    metrics: Metrics
    counters: MessageCounters
    statistics: Statistics
    durability: Durability
    retention: Retention
    announce: Announce
    replication: Watched
    users: Users | None
    """None: the broker has none."""

    @property
    def rights(self) -> MessageRights | None:
        """Judges what clients may be given; None: the broker has no users."""
        return None if self.users is None else self.users.rights


def open_waiting(
    config: LiveConfig, outside: Outside, place: Place, store: MessageStore, registries: Registries, *,
    primary: bool = True, promoted: bool = False, ahead: DecisionsAhead | None = None,
) -> WaitingMessages:  # fmt: skip
    """Read what waits. Raises ConfigError or StoreError. A broker that is no ``primary`` delivers and decides nothing:
    it reads nothing, either. ``promoted``: the log is that of another broker. ``ahead``: what was read of it before.
    """
    clock, disk = outside.clock, outside.disk
    delays_ms = store_config(config.current).delays_ms
    time = SteadyTime(clock, lambda: store.appended)
    if primary:
        delivered = Delivered.open(store, store.file_disk, time, promoted=promoted)
    else:
        delivered = Delivered.unread(store, store.file_disk, time)
    delay = DelayedDelivery(store, clock, store.file_disk, store.path(DELAYS_FILE), delays_ms, time, delivered)
    timer = None
    if config.delay.timer_wheel_enable and primary:
        size = config.delay.mapped_file_size_timer_log
        timer = TimedDelivery(store, clock, disk, timer_rules(config.current), size, time, delivered)
    producers = registries.producers

    def rules() -> TransactionConfig:
        return transaction_config(config.current, promoted=promoted)

    coordinator = TransactionCoordinator(
        store,
        producers,
        registries.topics,
        registries.offsets,
        clock,
        disk,
        rules(),
        place.host,
    )
    if primary:
        coordinator.rebuild(ahead)
    config.changed.append(lambda: coordinator.reconfigure(rules()))
    producers.came.append(coordinator.client_came)
    producers.joined.append(coordinator.producer_joined)
    return WaitingMessages(delay, timer, coordinator, delivered, time)


def operations_of(parts: Parts, settings: SettingsAdministration, routes: RouteSource) -> Operations:
    """What the broker does."""
    consuming = _consuming(parts, routes)
    return Operations(
        _sending(parts),
        parts.waiting.coordinator,
        EndsById(parts.store, parts.waiting.coordinator),
        consuming,
        Members(parts.config, parts.registries, parts.outside.clock, parts.announce),
        _administration(parts, settings, consuming.pulls.held.release, consuming.popping),
        routes,
        parts.users,
    )


def _sending(parts: Parts) -> Sending:
    config, store, registries, durability = parts.config, parts.store, parts.registries, parts.durability
    clock, rng = parts.outside.clock, parts.outside.rng
    topics, groups, timer = registries.topics, registries.groups, parts.waiting.timer
    delays_ms, rules = store_config(config.current).delays_ms, timer_rules(config.current)
    unique_ids = UniqueIds(rng, clock, parts.place.host[:-4], rng.below(1 << 16))
    admission = Admission(config, topics, rng, parts.announce, store.room)
    halves = HalfSends(config, admission, parts.waiting.coordinator)
    delays_and_retries = DelaysAndRetries(
        topics, groups, parts.waiting.time, delays_ms, rules, None if timer is None else timer.now_ms
    )
    return Sending(
        Sends(config, admission, durability, halves, delays_and_retries, unique_ids, parts.counters, LiteSends(store)),
        BatchSends(admission, durability, unique_ids),
        HalvesSends(admission, durability, halves, parts.waiting.coordinator, stamp_of(config)),
        SendBacks(store, topics, groups, rng, parts.waiting.time, delays_ms, parts.counters, parts.rights),
        Replies(config, admission, durability, registries.producers, clock, parts.place.address),
        Timers(config, rules, timer, durability, topics, clock),
    )


def _consuming(parts: Parts, routes: RouteSource) -> Consuming:
    config, store, registries, outside = parts.config, parts.store, parts.registries, parts.outside
    topics, groups, offsets = registries.topics, registries.groups, registries.offsets
    checks = PullChecks(config, topics, groups, registries.consumers, registries.filters)
    return Consuming(
        Pulls(config, store, checks, offsets, outside.clock, parts.counters, parts.rights),
        Popping(
            config, store, registries, routes, outside, parts.place.host, parts.counters, parts.rights,
            parts.waiting.delivered,
        ),
        Positions(store, topics, groups, offsets),
        Queries(store, parts.rights),
    )  # fmt: skip


def _administration(
    parts: Parts, settings: SettingsAdministration, release: Callable[[str, str], None], popping: Popping
) -> Administration:
    config, store, registries, statistics = parts.config, parts.store, parts.registries, parts.statistics
    topics, groups, offsets = registries.topics, registries.groups, registries.offsets
    producers, consumers, clock = registries.producers, registries.consumers, parts.outside.clock
    topic_work = TopicAdministration(topics, offsets, store, parts.counters, parts.announce)
    group_work = GroupAdministration(groups, offsets)
    return Administration(
        topic_work,
        group_work,
        TableChanges(topic_work, group_work, clock),
        ProgressQuestions(config.identity.broker_name, parts.place.address, store, registries, statistics, clock),
        Connections(producers, consumers, clock),
        ConsumerQuestions(config.identity.broker_name, consumers, store, parts.rights),
        Resets(config, store, registries, release),
        settings,
        Cleaning(store, topics, parts.retention),
        Figures(store, parts.waiting.delay, parts.metrics, statistics, clock, VERSION, parts.replication.state),
        ResumeOperation(store, parts.waiting.coordinator),
        Explaining(lambda: _explanations(parts)),
        Overviews(store, registries, statistics, clock, lambda: invisible(popping.consumption.revive_log.ledger)),
        TableCopies(
            registries, parts.waiting.delay.content,
            {
                MODES: lambda: popping.assignments.modes().encode().decode(),
                ORDER: lambda: pretty(popping.consumption.blocks.content()),
            },
        ),
        Handovers(parts.replication.hand_over, parts.replication.told),
    )  # fmt: skip


def _explanations(parts: Parts) -> TransactionExplanations:
    from gantrymq.broker.transactions.explanations import TransactionExplanations

    coordinator, producers = parts.waiting.coordinator, parts.registries.producers
    return TransactionExplanations(
        parts.config, parts.store, coordinator, producers, parts.outside.clock, parts.place.address
    )
