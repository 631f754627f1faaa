"""What the Spark driver asks the cluster: which queues there are, and their first and last offsets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence

from gantrymq.errors import ConfigError, GantryError, RouteNotFound
from gantrymq.message import system_topics
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.runtime.rng import Rng
from gantrymq.spark.offsets import EARLIEST, LATEST, Positions, covers, describe
from gantrymq.spark.options.bounds import Bound, Edge, Instant, Instants
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.patience import WARN_EVERY_S, BlockingClock, Patience, may_pass
from gantrymq.spark.source.byte_limit import Place
from gantrymq.spark.source.connections import Connections
from gantrymq.spark.source.queue_reader import QueueReader

log = logging.getLogger("gantrymq.spark")

FIRST_LOOK_TIMEOUT_MS = 3_000
"""How long a query waits at its start for an unknown topic, or for name servers that do not answer: long enough for a
broker that is just registering, and short enough for a user who mistyped a name."""


class _Behind(GantryError):
    """A queue ends before the offset up to which a stream has already read."""

    retryable = True

    def __init__(self, queues: list[MessageQueue], ends: Positions) -> None:
        self.ends = ends
        self.lost = (
            f"{describe(queues)} end before what was already read: messages were lost or the topic was made anew"
        )
        super().__init__(
            f"{self.lost}. With the option failOnDataLoss=false the stream continues at their new ends; otherwise use "
            f"a new checkpoint"
        )


class NoSuchQueue(GantryError):
    """The option ``assign`` names a queue that no broker has registered. It may be registered soon."""

    retryable = True
    what_to_do = "Correct the option `assign`, or create the topic with that many queues."


class Planner:
    """Asks for the queues and offsets of one query, and tries again while brokers restart."""

    def __init__(self, settings: SourceSettings, connections: Connections, clock: BlockingClock, rng: Rng) -> None:
        self._settings = settings
        self._connections = connections
        self._clock = clock
        self._patience = Patience(settings.read_timeout_ms, clock, rng)
        self._first_look = Patience(min(settings.read_timeout_ms, FIRST_LOOK_TIMEOUT_MS), clock, rng)
        self._resumed = False
        self._queues: list[MessageQueue] = []
        self._looked_at = 0.0
        self._failing_since: float | None = None
        """Since when new queues could not be looked up; None: the last look succeeded."""
        self._warned_at: float | None = None

    def resume(self) -> None:
        """The query goes on from a checkpoint, so its topics were there: waiting for name servers is worth it."""
        self._resumed = True

    def queues(self) -> list[MessageQueue]:
        """The queues that this query reads. They are looked up again every ``discoveryInterval``; known queues stay."""
        now = self._clock.monotonic()
        if not self._queues:
            patience = self._patience if self._resumed else self._first_look
            self._queues = patience.call("looking up the queues", self._look_up)
            self._looked_at = now
        elif self._settings.queues:
            pass  # chosen by hand, and all of them exist
        elif now - self._looked_at >= self._settings.discovery_interval_ms / 1000:
            self._queues = sorted({*self._queues, *self._newly_found(now)})
            self._looked_at = now
        return self._queues

    def _newly_found(self, now: float) -> list[MessageQueue]:
        """The queues there are now. While no name server can say it, none are new, and the known ones are read: only
        their brokers are needed for that. A topic that name servers have forgotten is an error when it stays so."""
        try:
            found = self._look_up()
        except GantryError as error:
            self._failing_since = now if self._failing_since is None else self._failing_since
            self._warn(error, now)
            forgotten = isinstance(error, RouteNotFound)
            if not may_pass(error) or (forgotten and now - self._failing_since > self._settings.read_timeout_ms / 1000):
                raise
            return []
        self._failing_since = self._warned_at = None
        return found

    def _warn(self, error: GantryError, now: float) -> None:
        if self._warned_at is None or now - self._warned_at >= WARN_EVERY_S:
            self._warned_at = now
            log.warning("new queues cannot be looked up, and the known ones are read meanwhile: %s", error)

    @property
    def reader(self) -> QueueReader:
        """The connection of this process that asks about queues."""
        return self._connections.reader(self._settings.name_servers, self._settings.access)

    def routes(self, topics: Iterable[str]) -> dict[str, TopicRoute]:
        """What this process knows of the brokers of these topics, for the processes that read."""
        return {topic: route for topic in topics if (route := self.reader.known_route(topic)) is not None}

    def _look_up(self) -> list[MessageQueue]:
        settings = self._settings
        if settings.queues:
            return self._assigned(settings.queues)
        found = [queue for topic in self._topics() for queue in self.reader.queues(topic)]
        if not found and settings.pattern is None:
            raise RouteNotFound(", ".join(settings.topics), "it has no readable queue")
        return sorted(found)

    def _assigned(self, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        """The queues of the option ``assign``. A queue that does not exist would read as an empty one."""
        topics = sorted({queue.topic for queue in queues})
        there = {queue for topic in topics for queue in self.reader.queues(topic)}
        unknown = [queue for queue in queues if queue not in there]
        if unknown:
            raise NoSuchQueue(
                f"option assign names {describe(unknown)}, which does not exist; there are {describe(there)}"
            )
        return list(queues)

    def _topics(self) -> list[str]:
        pattern = self._settings.pattern
        if pattern is None:
            return list(self._settings.topics)
        known = self._connections.lister(self._settings.name_servers, self._settings.access).topics()
        return [topic for topic in known if re.fullmatch(pattern, topic) and not is_internal(topic)]

    def edge(self, edge: Edge, queues: list[MessageQueue]) -> Positions:
        """The current beginning or end of each queue."""
        if not queues:
            return {}
        reader = self.reader
        ask = reader.min_offsets if edge is Edge.EARLIEST else reader.max_offsets
        found = self._patience.call(f"asking for the {edge.value} offsets of {describe(queues)}", lambda: ask(queues))
        return {queue: int(found[queue]) for queue in queues}

    def latest(self, queues: list[MessageQueue], reached: Positions) -> Positions:
        """The end of each queue. A broker that has just restarted may report a lower one than ``reached`` for a moment.

        If it stays lower, messages were lost or the topic was made anew: this raises _Behind, or returns the lower end
        when ``failOnDataLoss`` is off. A stream that waited at ``reached`` would read none of the messages before it.
        """

        def ask() -> Positions:
            found = self.edge(Edge.LATEST, queues)
            known = {queue: offset for queue, offset in reached.items() if queue in found}
            if not covers(found, known):
                raise _Behind([queue for queue in known if found[queue] < known[queue]], found)
            return found

        try:
            return self._patience.call("asking for new messages", ask)
        except _Behind as error:
            if self._settings.fail_on_data_loss:
                raise
            log.error("%s; what they hold now is not read, and what comes is", error.lost)
            return error.ends

    def sizes(self, places: Sequence[Place]) -> dict[Place, int]:
        """The bytes of messages, as brokers send them. Those that are gone are left out."""
        reader, wanted = self.reader, [(queue, offset, 1) for queue, offset in places]

        def ask() -> dict[Place, int]:
            answers = reader.pull_raw_each(wanted, 1)
            errors = [answer for answer in answers if isinstance(answer, GantryError)]
            if errors:
                raise errors[0]
            pulled = [answer for answer in answers if not isinstance(answer, GantryError)]
            return {place: len(answer.data) for place, answer in zip(places, pulled, strict=True) if answer.data}

        return self._patience.call("asking for the sizes of messages", ask) if places else {}

    def resolve(self, bound: Bound, side: str) -> Positions:
        """The current offset of a bound in every queue. ``side``: ``starting`` or ``ending``.

        Raises ConfigError for a queue that does not exist, and for a starting time after the last message.
        """
        queues = self.queues()
        if isinstance(bound, Edge):
            return self.edge(bound, queues)
        if isinstance(bound, Instant):
            return self._at_times(dict.fromkeys(queues, bound.timestamp_ms), f"{side}Timestamp")
        named = bound.timestamps_ms if isinstance(bound, Instants) else bound
        option = f"{side}OffsetsByTimestamp" if isinstance(bound, Instants) else f"{side}Offsets"
        unknown = [queue for queue in named if queue not in queues]
        if unknown:
            raise ConfigError(
                f"option {option} names {describe(unknown)}, which is not read; there are {describe(queues)}"
            )
        # Of queues that the option does not name, no message is skipped at either end.
        default = EARLIEST if side == "starting" else LATEST
        if isinstance(bound, Instants):
            others = [queue for queue in queues if queue not in named]
            rest = self.edge(Edge.EARLIEST if default == EARLIEST else Edge.LATEST, others)
            return {**rest, **self._at_times(named, option)}
        if side == "starting":
            self._refuse_beyond_end(bound, option)
        wanted = {queue: bound.get(queue, default) for queue in queues}
        edges = {
            **self.edge(Edge.EARLIEST, [queue for queue in queues if wanted[queue] == EARLIEST]),
            **self.edge(Edge.LATEST, [queue for queue in queues if wanted[queue] == LATEST]),
        }
        return {queue: edges.get(queue, offset) for queue, offset in wanted.items()}

    def _refuse_beyond_end(self, wanted: Positions, option: str) -> None:
        ends = self.edge(Edge.LATEST, list(wanted))
        beyond = [f"{queue} ends at {ends[queue]}, and not at {at}" for queue, at in wanted.items() if at > ends[queue]]
        if beyond:
            raise ConfigError(
                f"option {option} names a place that no message has: {beyond[0]}; choose an offset up to the end, or "
                "-1 for the end"
            )

    def _at_times(self, times: Positions, option: str) -> Positions:
        """The first message of each queue that was stored at its time or later."""
        found = {queue: self.at_time(queue, timestamp_ms) for queue, timestamp_ms in times.items()}
        if option.startswith("starting") and not self._settings.late_start_at_end:
            ends = self.edge(Edge.LATEST, list(found))
            late = [queue for queue, offset in found.items() if offset >= ends[queue]]
            if late:
                raise ConfigError(
                    f"option {option}: {describe(late)} has no message that was stored then or later; choose an "
                    f"earlier time, or set startingOffsetsByTimestampStrategy=latest to start at the end there"
                )
        return found

    def at_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at this time or later; the end when there is none."""
        reader = self.reader
        return int(
            self._patience.call(f"searching {queue} by time", lambda: reader.offset_by_time(queue, timestamp_ms))
        )


def is_internal(topic: str) -> bool:
    """Whether no pattern matches this topic, because it is one of transactions, timers, retries or dead letters."""
    return (
        topic in system_topics.NOT_SENDABLE
        or topic in (system_topics.TIMER, system_topics.TRACE, system_topics.AUTO_CREATE, system_topics.BENCHMARK)
        or topic.startswith((system_topics.RETRY_PREFIX, system_topics.DEAD_LETTER_PREFIX, "RMQ_SYS_", "rmq_sys_"))
    )
