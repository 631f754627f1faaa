"""Reads and checks the options of the format ``rocketmq``, and returns frozen settings.

The options are declared in ``table.py``: their names, meanings and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

import msgspec

from gantrymq.client.consuming.filters import EVERYTHING, SQL92, TAG, Filter, filter_of
from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.columns.rows import DEFAULT_COLUMNS, check_columns
from gantrymq.spark.offsets import Positions, parse_positions
from gantrymq.spark.options.access import Access, access_of
from gantrymq.spark.options.names import OptionNames
from gantrymq.spark.options.table import BY_NAME, DECLARED, WITHOUT_COUNTERPART, Query
from gantrymq.spark.options.values import chosen, count, duration_ms, instant_ms, instants_ms, size_bytes, truth, words

_OF_TABLES: Final = frozenset(
    {"provider", "owner", "location", "comment", "collation", "external", "is_managed_location"}
)
"""What Spark passes for ``CREATE TABLE ... USING rocketmq`` beside the options, and beside ``option.NAME`` for each."""

_NAMES: Final = OptionNames("the format rocketmq", DECLARED, WITHOUT_COUNTERPART)
_TABLE_FORMS: Final = (
    "In SQL, Spark forgets the options of CREATE TABLE; write CREATE TEMPORARY VIEW v USING rocketmq OPTIONS "
    "(nameServers '127.0.0.1:9876', subscribe 'orders'), or SELECT ... FROM t WITH (nameServers = '127.0.0.1:9876', "
    "subscribe = 'orders')"
)


class Edge(Enum):
    """The beginning or the end of a queue."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Instant:
    """The first message stored at this time or later, in every queue."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Instants:
    """The same with a time for each queue."""

    timestamps_ms: Positions


Bound: TypeAlias = Edge | Instant | Instants | Positions
"""Where a query starts or ends."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings of a query. Each field is an option; see ``table.DECLARED`` for its meaning."""

    name_servers: str
    topics: tuple[str, ...] = ()
    """Topics by name; empty when ``pattern`` or ``queues`` chooses."""
    pattern: str | None = None
    queues: tuple[MessageQueue, ...] = ()
    access: Access = field(default_factory=Access)
    starting: Bound | None = None
    """None: the default, which differs between batches and streams."""
    late_start_at_end: bool = False
    """Start at the end of a queue without a message of the starting time or later, instead of an error."""
    ending: Bound = Edge.LATEST
    filter: Filter = EVERYTHING
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_rows_per_partition: int | None = None
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    group: str | None = None
    read_timeout_ms: int = 120_000
    poll_interval_ms: int = 50
    discovery_interval_ms: int = 10_000
    pull_max_rows: int = 10_000
    given: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the options that the user gave."""

    def for_stream(self) -> SourceSettings:
        """These settings, or ConfigError when an option only makes sense for a batch."""
        return self._without(Query.BATCH, "is for spark.read: a stream has no end")

    def for_batch(self) -> SourceSettings:
        """These settings, or ConfigError when an option only makes sense for a stream."""
        if self.starting is Edge.LATEST:
            raise ConfigError("startingOffsets=latest would read nothing in a batch; allowed are earliest and JSON")
        if isinstance(self.starting, Instant) and isinstance(self.ending, Instant):
            begin, end = self.starting.timestamp_ms, self.ending.timestamp_ms
            if begin > end:
                raise ConfigError(
                    f"the time of startingTimestamp ({begin}) is after that of endingTimestamp ({end}); exchange them"
                )
        return self._without(Query.STREAM, "is for spark.readStream; leave it out of a batch")

    def _without(self, query: Query, advice: str) -> SourceSettings:
        for name in sorted(self.given):
            # An interval of a stream does no harm in a batch, and the same options often serve both.
            if BY_NAME[name].query is query and name not in ("pollInterval", "discoveryInterval"):
                raise ConfigError(f"option {name} {advice}")
        return self


def parse_options(given: Mapping[str, str]) -> SourceSettings:
    """The settings in Spark's options. Raises ConfigError, which names the option and its allowed values."""
    options = _NAMES.canonical(given, _is_of_table)
    if not options.get("nameServers", "").strip(" ;,"):
        raise ConfigError(
            f"option nameServers is missing; give the name servers, for example 127.0.0.1:9876. {_TABLE_FORMS}"
        )
    topics, pattern, queues = _selection(options)
    columns = check_columns(words(options["columns"])) if "columns" in options else DEFAULT_COLUMNS
    if truth(options, "includeProperties", default=False) and "properties" not in columns:
        columns = (*columns, "properties")
    defaults = SourceSettings("")
    return SourceSettings(
        name_servers=";".join(words(options["nameServers"].replace(";", ","))),
        topics=topics,
        pattern=pattern,
        queues=queues,
        access=access_of(options),
        starting=_bound(options, "starting", (Edge.EARLIEST, Edge.LATEST)),
        late_start_at_end=chosen(options, "startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        ending=_bound(options, "ending", (Edge.LATEST,)) or Edge.LATEST,
        filter=_filter(options),
        max_offsets_per_trigger=count(options, "maxOffsetsPerTrigger"),
        max_bytes_per_trigger=size_bytes(options, "maxBytesPerTrigger"),
        min_offsets_per_trigger=_least(options),
        max_trigger_delay_ms=_or(duration_ms(options, "maxTriggerDelay"), defaults.max_trigger_delay_ms),
        min_partitions=count(options, "minPartitions"),
        max_rows_per_partition=count(options, "maxRecordsPerPartition"),
        fail_on_data_loss=truth(options, "failOnDataLoss", default=True),
        columns=columns,
        group=options.get("group"),
        read_timeout_ms=_or(duration_ms(options, "readTimeout"), defaults.read_timeout_ms),
        poll_interval_ms=_or(duration_ms(options, "pollInterval"), defaults.poll_interval_ms),
        discovery_interval_ms=_or(duration_ms(options, "discoveryInterval"), defaults.discovery_interval_ms),
        pull_max_rows=count(options, "pullMaxRows") or defaults.pull_max_rows,
        given=frozenset(options),
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _is_of_table(name: str) -> bool:
    return name in _OF_TABLES or name.startswith("option.")


def _selection(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[MessageQueue, ...]]:
    """(topics, pattern, queues): exactly one of them is chosen."""
    selected = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(selected) != 1:
        raise ConfigError(
            f"give exactly one of subscribe, subscribePattern and assign; given: {', '.join(selected) or 'none'}"
        )
    if selected[0] == "subscribe":
        topics = words(options["subscribe"])
        if not topics:
            raise ConfigError("option subscribe names no topic")
        return tuple(dict.fromkeys(topics)), None, ()
    if selected[0] == "subscribePattern":
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
        raise ConfigError(
            f'option assign has the wrong form ({error}); write for example {{"orders": {{"broker-a": [0, 1]}}}}'
        ) from error
    queues = {
        MessageQueue(topic, broker, queue_id)
        for topic, brokers in tree.items()
        for broker, ids in brokers.items()
        for queue_id in ids
    }
    if not queues:
        raise ConfigError("option assign names no queue")
    return tuple(sorted(queues))


def _bound(options: Mapping[str, str], side: str, edges: tuple[Edge, ...]) -> Bound | None:
    """Where the query starts or ends: by one time, by a time per queue, or by offsets, in this order of priority."""
    at, by_time, by_offset = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if at in options:
        return Instant(instant_ms(options[at], at))
    if by_time in options:
        return Instants(instants_ms(options[by_time], by_time))
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


def _filter(options: Mapping[str, str]) -> Filter:
    kind = chosen(options, "subExpressionType", (TAG, SQL92))
    if kind == SQL92 and "subExpression" not in options:
        raise ConfigError("option subExpressionType is SQL92, but subExpression, the expression, is missing")
    text = options.get("subExpression", "*")
    if kind == TAG and text.strip() in ("", "*"):
        return EVERYTHING
    try:
        return filter_of(text) if kind == TAG else filter_of("*", text)
    except ConfigError as error:
        raise ConfigError(f"option subExpression: {error}") from None


def _least(options: Mapping[str, str]) -> int | None:
    least, most = count(options, "minOffsetsPerTrigger"), count(options, "maxOffsetsPerTrigger")
    if least and most and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger is {least}, which is more than maxOffsetsPerTrigger, {most}")
    return least
