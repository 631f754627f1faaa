"""What the Spark driver asks the cluster: which queues there are, and their first and last offsets."""

from __future__ import annotations

import re

from gantrymq.errors import ConfigError, GantryError, RouteNotFound
from gantrymq.message import system_topics
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.rng import Rng
from gantrymq.spark.connections import Connections
from gantrymq.spark.offsets import EARLIEST, LATEST, Positions, covers, describe
from gantrymq.spark.options import Bound, Edge, Instant, Settings
from gantrymq.spark.patience import BlockingClock, Patience

FIRST_LOOK_TIMEOUT_MS = 15_000
"""How long a query waits at its start for an unknown topic: long enough for a broker that is just registering, and
short enough for a user who mistyped the name."""


class _Behind(GantryError):
    """A queue ends before the offset up to which a stream has already read."""

    retryable = True

    def __init__(self, queues: list[MessageQueue]) -> None:
        self.queues = queues
        super().__init__(
            f"{describe(queues)} end before what was already read: messages were lost or the topic was made anew. "
            f"With the option failOnDataLoss=false the stream waits there for new messages; otherwise use a new "
            f"checkpoint"
        )


class Planner:
    """Asks for the queues and offsets of one query, and tries again while brokers restart."""

    def __init__(self, settings: Settings, connections: Connections, clock: BlockingClock, rng: Rng) -> None:
        self._settings = settings
        self._connections = connections
        self._clock = clock
        self._patience = Patience(settings.read_timeout_ms, clock, rng)
        self._first_look = Patience(min(settings.read_timeout_ms, FIRST_LOOK_TIMEOUT_MS), clock, rng)
        self._queues: list[MessageQueue] = []
        self._looked_at = 0.0

    def queues(self) -> list[MessageQueue]:
        """The queues that this query reads. They are looked up again every ``discoveryInterval``; known queues stay."""
        now = self._clock.monotonic()
        if not self._queues:
            self._queues = self._first_look.call("looking up the queues", self._look_up)
            self._looked_at = now
        elif now - self._looked_at >= self._settings.discovery_interval_ms / 1000:
            found = self._patience.call("looking up new queues", self._look_up)
            self._queues = sorted({*self._queues, *found})
            self._looked_at = now
        return self._queues

    def _look_up(self) -> list[MessageQueue]:
        settings = self._settings
        if settings.queues:
            return list(settings.queues)
        reader = self._connections.reader(settings.name_servers)
        found = [queue for topic in self._topics() for queue in reader.queues(topic)]
        if not found and settings.pattern is None:
            raise RouteNotFound(", ".join(settings.topics), "it has no readable queue")
        return sorted(found)

    def _topics(self) -> list[str]:
        pattern = self._settings.pattern
        if pattern is None:
            return list(self._settings.topics)
        known = self._connections.lister(self._settings.name_servers).topics()
        return [topic for topic in known if re.fullmatch(pattern, topic) and not is_internal(topic)]

    def edge(self, edge: Edge, queues: list[MessageQueue]) -> Positions:
        """The current beginning or end of each queue."""
        reader = self._connections.reader(self._settings.name_servers)
        ask = reader.min_offset if edge is Edge.EARLIEST else reader.max_offset
        return {
            queue: self._patience.call(f"asking for the {edge.value} offset of {queue}", lambda q=queue: int(ask(q)))  # type: ignore[misc]
            for queue in queues
        }

    def latest(self, queues: list[MessageQueue], reached: Positions) -> Positions:
        """The end of each queue, never before ``reached``.

        A broker that has just restarted may report a lower end for a moment. If it stays lower, this raises _Behind, or
        returns ``reached`` when ``failOnDataLoss`` is off.
        """

        def ask() -> Positions:
            found = self.edge(Edge.LATEST, queues)
            known = {queue: offset for queue, offset in reached.items() if queue in found}
            if not covers(found, known):
                raise _Behind([queue for queue in known if found[queue] < known[queue]])
            return found

        if self._settings.fail_on_data_loss:
            return self._patience.call("asking for new messages", ask)
        found = self.edge(Edge.LATEST, queues)
        return {queue: max(offset, reached.get(queue, 0)) for queue, offset in found.items()}

    def resolve(self, bound: Bound, option: str) -> Positions:
        """The current offset of a bound in every queue. Raises ConfigError for a queue that does not exist."""
        queues = self.queues()
        if isinstance(bound, Edge):
            return self.edge(bound, queues)
        if isinstance(bound, Instant):
            return {queue: self._at_time(queue, bound.timestamp_ms) for queue in queues}
        unknown = [queue for queue in bound if queue not in queues]
        if unknown:
            raise ConfigError(
                f"option {option} names {describe(unknown)}, which is not read; there are {describe(queues)}"
            )
        # Of queues that the option does not name, no message is skipped at either end.
        default = EARLIEST if option.startswith("starting") else LATEST
        wanted = {queue: bound.get(queue, default) for queue in queues}
        edges = {
            **self.edge(Edge.EARLIEST, [queue for queue in queues if wanted[queue] == EARLIEST]),
            **self.edge(Edge.LATEST, [queue for queue in queues if wanted[queue] == LATEST]),
        }
        return {queue: edges.get(queue, offset) for queue, offset in wanted.items()}

    def _at_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        reader = self._connections.reader(self._settings.name_servers)
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
