"""The options of the format ``rocketmq``: reads and checks Spark's map of texts, and returns frozen settings.

The names are those of Spark's Kafka connector where the meaning is the same. The names of the old RocketMQ connector
are accepted, too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import Positions, parse_positions
from gantrymq.spark.rows import DEFAULT_COLUMNS, check_columns

ALIASES: Final = {
    "nameserver": "nameServers",
    "name.servers": "nameServers",
    "rocketmq.name.servers": "nameServers",
    "rocketmq.nameserver": "nameServers",
    "topic": "subscribe",
    "pullbatchsize": "pullMaxRows",
}
"""Other names (in lower case) that are accepted for options."""

OPTIONS: Final = {
    "nameServers": "addresses of the name servers, separated by ';' or ','; required",
    "subscribe": "topics, separated by ','",
    "subscribePattern": "regular expression that a whole topic name must match; new topics are found while running",
    "assign": 'single queues: {"orders": {"broker-a": [0, 1]}}',
    "startingOffsets": "earliest, latest or JSON per queue; default earliest for a batch, latest for a stream",
    "endingOffsets": "batch only: latest (default) or JSON per queue",
    "startingTimestamp": "ms since 1970: start at the first message stored then or later; has priority over "
    "startingOffsets",
    "endingTimestamp": "batch only, ms since 1970: stop before the first message stored then or later",
    "maxOffsetsPerTrigger": "stream only: largest number of rows in a micro-batch",
    "minPartitions": "split the queues until there are about this many tasks",
    "maxRecordsPerPartition": "largest number of rows in a task",
    "failOnDataLoss": "true (default): fail when messages of the range no longer exist; false: continue behind them",
    "includeProperties": "true: add the column properties, all of a message's properties as a map; default false",
    "columns": "only these columns, separated by ','; the others are not decoded",
    "readTimeout": "how long to try again while brokers cannot be reached, for example 90s; default 120s",
    "pollInterval": "stream only: how often to ask for new messages while there are none; default 50ms",
    "discoveryInterval": "stream only: how often to look for new queues and topics; default 10s",
    "pullMaxRows": "largest number of messages in one pull; default 10000 (a broker may answer with fewer)",
}
"""Every option with its meaning, unit and default."""

_BY_LOWER: Final = {name.lower(): name for name in OPTIONS} | ALIASES
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h)?")
_UNITS_MS: Final = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


class Edge(Enum):
    """The beginning or the end of a queue."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Instant:
    """The first message stored at this time or later."""

    timestamp_ms: int


Bound: TypeAlias = Edge | Instant | Positions
"""Where a query starts or ends."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a query."""

    name_servers: str
    topics: tuple[str, ...] = ()
    """Topics by name; empty when ``pattern`` or ``queues`` chooses."""
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()
    starting: Bound | None = None
    """None: the default, which differs between batches and streams."""
    ending: Bound = Edge.LATEST
    ending_given: bool = False
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_rows_per_partition: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    read_timeout_ms: int = 120_000
    poll_interval_ms: int = 50
    discovery_interval_ms: int = 10_000
    pull_max_rows: int = 10_000

    def for_stream(self) -> Settings:
        """These settings, or ConfigError when an option only makes sense for a batch."""
        if self.ending_given:
            raise ConfigError("a stream has no end: endingOffsets and endingTimestamp are for spark.read")
        return self

    def for_batch(self) -> Settings:
        """These settings, or ConfigError when an option only makes sense for a stream."""
        if self.max_offsets_per_trigger is not None:
            raise ConfigError("maxOffsetsPerTrigger is for spark.readStream; a batch is bounded by endingOffsets")
        if self.starting is Edge.LATEST:
            raise ConfigError("startingOffsets=latest would read nothing in a batch; allowed are earliest and JSON")
        return self


def parse_options(given: Mapping[str, str]) -> Settings:
    """The settings in Spark's options. Raises ConfigError, which names the option and its allowed values."""
    options = _canonical(given)
    if not options.get("nameServers", "").strip(" ;,"):
        raise ConfigError("option nameServers is missing; give the name servers, for example 127.0.0.1:9876")
    topics, pattern, queues = _selection(options)
    columns = check_columns(_words(options["columns"])) if "columns" in options else DEFAULT_COLUMNS
    if _truth(options, "includeProperties", default=False) and "properties" not in columns:
        columns = (*columns, "properties")
    defaults = Settings("")
    return Settings(
        name_servers=";".join(_words(options["nameServers"].replace(";", ","))),
        topics=topics,
        pattern=pattern,
        queues=queues,
        starting=_bound(options, "startingTimestamp", "startingOffsets", (Edge.EARLIEST, Edge.LATEST)),
        ending=_bound(options, "endingTimestamp", "endingOffsets", (Edge.LATEST,)) or Edge.LATEST,
        ending_given="endingTimestamp" in options or "endingOffsets" in options,
        max_offsets_per_trigger=_count(options, "maxOffsetsPerTrigger"),
        min_partitions=_count(options, "minPartitions"),
        max_rows_per_partition=_count(options, "maxRecordsPerPartition"),
        fail_on_data_loss=_truth(options, "failOnDataLoss", default=True),
        columns=columns,
        read_timeout_ms=_duration_ms(options, "readTimeout", defaults.read_timeout_ms),
        poll_interval_ms=_duration_ms(options, "pollInterval", defaults.poll_interval_ms),
        discovery_interval_ms=_duration_ms(options, "discoveryInterval", defaults.discovery_interval_ms),
        pull_max_rows=_count(options, "pullMaxRows") or defaults.pull_max_rows,
    )


def _canonical(given: Mapping[str, str]) -> dict[str, str]:
    """The options under their main names. Raises ConfigError for unknown options, and when one option is given under
    two names."""
    options: dict[str, str] = {}
    for key, value in given.items():
        name = _BY_LOWER.get(key.lower())
        if name is None:
            close = difflib.get_close_matches(key.lower(), _BY_LOWER, 1)
            hint = f"did you mean {_BY_LOWER[close[0]]}?" if close else f"there are {', '.join(OPTIONS)}"
            raise ConfigError(f"the format rocketmq has no option {key!r}; {hint}")
        if name in options and options[name] != value:
            raise ConfigError(f"option {name} is given twice, as {options[name]!r} and as {value!r}")
        options[name] = value
    return options


def _selection(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[MessageQueue, ...]]:
    """(topics, pattern, queues): exactly one of them is chosen."""
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(chosen) != 1:
        raise ConfigError(
            f"give exactly one of subscribe, subscribePattern and assign; given: {', '.join(chosen) or 'none'}"
        )
    if chosen[0] == "subscribe":
        topics = _words(options["subscribe"])
        if not topics:
            raise ConfigError("option subscribe names no topic")
        return tuple(dict.fromkeys(topics)), None, ()
    if chosen[0] == "subscribePattern":
        pattern = options["subscribePattern"]
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"option subscribePattern is no regular expression: {error}") from error
        return (), pattern, ()
    return (), None, _assigned(options["assign"])


def _assigned(text: str) -> tuple[MessageQueue, ...]:
    try:
        tree = msgspec.json.decode(text, type=dict[str, dict[str, list[int]]])
    except msgspec.DecodeError as error:
        raise ConfigError(f"option assign has the wrong form ({error}); write {OPTIONS['assign']}") from error
    queues = {
        MessageQueue(topic, broker, queue_id)
        for topic, brokers in tree.items()
        for broker, ids in brokers.items()
        for queue_id in ids
    }
    if not queues:
        raise ConfigError("option assign names no queue")
    return tuple(sorted(queues))


def _bound(options: Mapping[str, str], by_time: str, by_offset: str, edges: tuple[Edge, ...]) -> Bound | None:
    if by_time in options:
        return Instant(_number(options, by_time, "ms since 1970, for example 1767225600000", minimum=0))
    if by_offset not in options:
        return None
    text = options[by_offset].strip()
    for edge in edges:
        if text.lower() == edge.value:
            return edge
    if not text.startswith("{"):
        allowed = ", ".join(edge.value for edge in edges)
        raise ConfigError(f"option {by_offset} is {text!r}; allowed are {allowed} and JSON per queue")
    return parse_positions(text, by_offset)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = str(options.get(name, default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"option {name} is {options[name]!r}; allowed are true and false")
    return text == "true"


def _count(options: Mapping[str, str], name: str) -> int | None:
    return _number(options, name, "a whole number, 1 or more", minimum=1) if name in options else None


def _number(options: Mapping[str, str], name: str, allowed: str, *, minimum: int) -> int:
    try:
        value = int(options[name])
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise ConfigError(f"option {name} is {options[name]!r}; allowed is {allowed}")
    return value


def _duration_ms(options: Mapping[str, str], name: str, default: int) -> int:
    if name not in options:
        return default
    match = _DURATION.fullmatch(options[name].strip().lower())
    if match is None:
        raise ConfigError(f"option {name} is {options[name]!r}; allowed are times like 500ms, 90s, 2m (a number is ms)")
    return int(match.group(1)) * _UNITS_MS[match.group(2)]
