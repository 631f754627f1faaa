"""The settings of a query of the source ``rocketmq``, and the declarations of all its options: the one place for their
names, meanings, values and defaults.

``settings.py`` reads what a user gives; ``option_pages.py`` makes the table in docs/spark.md. An option that has a
counterpart in Spark's Kafka source names it, and ``WITHOUT_COUNTERPART`` gives the reason for each option of the Kafka
source that has none here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gantrymq.client.consuming.filters import Filter
from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.columns.rows import DEFAULT_COLUMNS
from gantrymq.spark.options.access import ENCRYPTED, NAME_SERVERS, PER_PROCESS, SIGNED, Access, access_in
from gantrymq.spark.options.bounds import Bound, Edge, Instant, bound
from gantrymq.spark.options.option import Option, Query, options_of, setting
from gantrymq.spark.options.selections import columns, message_filter, pattern, queues, topics
from gantrymq.spark.options.values import chosen, count, duration_ms, servers, size_bytes, text, truth

_TIMES: Final = '`{"orders": {"broker-a": {"0": "2026-01-31T08:00:00Z"}}}`'


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings of a query. Each field declares the options that it is read from."""

    name_servers: str = setting(servers, NAME_SERVERS, otherwise="")
    topics: tuple[str, ...] = setting(
        topics,
        Option("subscribe", "topics, separated by `,`", aliases=("topic", "consumer.topic"), kafka=("subscribe",)),
        otherwise=(),
    )
    """Topics by name; empty when ``pattern`` or ``queues`` chooses."""
    pattern: str | None = setting(
        pattern,
        Option(
            "subscribePattern",
            "regular expression that a whole topic name must match; system topics never do, and new topics are found "
            "while a stream runs",
            kafka=("subscribePattern",),
        ),
    )
    queues: tuple[MessageQueue, ...] = setting(
        queues,
        Option(
            "assign",
            'single queues: `{"orders": {"broker-a": [0, 1]}}`; a queue that does not exist is an error',
            kafka=("assign",),
        ),
        otherwise=(),
    )
    starting: Bound | None = setting(
        partial(bound, edges=(Edge.EARLIEST, Edge.LATEST)),
        Option(
            "startingOffsets",
            "`earliest`, `latest` (stream only) or per queue: "
            '`{"orders": {"broker-a": {"0": 120, "1": -2}}}`, where -2 is the beginning and -1 the end of a queue; '
            "queues "
            "that are not named start at their beginning",
            default="earliest for a batch, latest for a stream",
            aliases=("consumer.offset",),
            kafka=("startingOffsets",),
        ),
        Option(
            "startingOffsetsByTimestamp",
            f"a starting time per queue: {_TIMES}; queues that are not named start at their beginning; has priority "
            "over "
            "`startingOffsets`",
            kafka=("startingOffsetsByTimestamp",),
        ),
        Option(
            "startingTimestamp",
            "start at the first message that was stored then or later: milliseconds since 1970, or an ISO 8601 time "
            "with its zone such as `2026-01-31T08:00:00Z`; has priority over the two options before it",
            kafka=("startingTimestamp",),
        ),
        otherwise=None,
    )
    """None: the default, which differs between batches and streams."""
    late_start_at_end: bool = setting(
        lambda options, name: chosen(options, name, ("error", "latest")) == "latest",
        Option(
            "startingOffsetsByTimestampStrategy",
            "what happens when a queue has no message of the starting time or later: `error`, or `latest` to start at "
            "the end of that queue",
            default="error",
            kafka=("startingOffsetsByTimestampStrategy",),
        ),
    )
    """Start at the end of a queue without a message of the starting time or later, instead of an error."""
    ending: Bound = setting(
        partial(bound, edges=(Edge.LATEST,)),
        Option(
            "endingOffsets",
            "`latest` or per queue; queues that are not named are read to their end",
            default="latest",
            query=Query.BATCH,
            kafka=("endingOffsets",),
        ),
        Option(
            "endingOffsetsByTimestamp",
            "an ending time per queue, in the form of `startingOffsetsByTimestamp`; queues that are not named are "
            "read to their end; has priority over `endingOffsets`",
            query=Query.BATCH,
            kafka=("endingOffsetsByTimestamp",),
        ),
        Option(
            "endingTimestamp",
            "stop before the first message that was stored then or later, a time as in `startingTimestamp`; has "
            "priority over the two options before it",
            query=Query.BATCH,
            kafka=("endingTimestamp",),
        ),
    )
    filter: Filter = setting(
        message_filter,
        Option(
            "subExpression",
            "only the messages with certain tags, such as `paid || refunded`, or those that an SQL92 expression "
            "selects (see `subExpressionType`); the broker evaluates it, so other messages are not sent",
            default="*",
            aliases=("rocketmq.source.filter.tag", "consumer.tag"),
        ),
        Option(
            "subExpressionType",
            "`TAG`, or `SQL92` for an expression over the properties such as `amount > 100 AND TAGS = 'paid'`",
            default="TAG",
        ),
    )
    max_offsets_per_trigger: int | None = setting(
        count,
        Option(
            "maxOffsetsPerTrigger",
            "the largest number of messages in a micro-batch, divided among the queues in proportion to their backlog",
            query=Query.STREAM,
            kafka=("maxOffsetsPerTrigger",),
        ),
    )
    max_bytes_per_trigger: int | None = setting(
        size_bytes,
        Option(
            "maxBytesPerTrigger",
            "about how many bytes of messages a micro-batch has, such as `64m`, divided like `maxOffsetsPerTrigger`. "
            "The source looks at some messages to know their sizes, so a batch can be larger where a few are far "
            "larger than all others. Each queue gives at least one message",
            query=Query.STREAM,
        ),
    )
    min_offsets_per_trigger: int | None = setting(
        count,
        Option(
            "minOffsetsPerTrigger",
            "wait until there are this many new messages, but no longer than `maxTriggerDelay`; the triggers `once` "
            "and `availableNow` do not wait",
            query=Query.STREAM,
            kafka=("minOffsetsPerTrigger",),
        ),
    )
    max_trigger_delay_ms: int = setting(
        duration_ms,
        Option(
            "maxTriggerDelay",
            "the longest time between two micro-batches while fewer than `minOffsetsPerTrigger` messages are new",
            default="15m",
            query=Query.STREAM,
            kafka=("maxTriggerDelay",),
        ),
    )
    min_partitions: int | None = setting(
        count,
        Option(
            "minPartitions",
            "split queues until there are about this many tasks; by default there is one task for each queue, and "
            "small queues share a task",
            kafka=("minPartitions",),
        ),
    )
    max_rows_per_partition: int | None = setting(
        count,
        Option("maxRecordsPerPartition", "the largest number of rows in a task", kafka=("maxRecordsPerPartition",)),
    )
    fail_on_data_loss: bool = setting(
        truth,
        Option(
            "failOnDataLoss",
            "`true`: fail when messages of a range no longer exist, or a body cannot be decompressed; "
            "`false`: log it and continue behind them",
            default="true",
            kafka=("failOnDataLoss",),
        ),
    )
    columns: tuple[str, ...] = setting(
        columns,
        Option("columns", "only these columns, separated by `,`; the others are not decoded"),
        Option(
            "includeProperties",
            "`true`: add the column `properties`, a map",
            default="false",
            kafka=("includeHeaders",),
        ),
        otherwise=DEFAULT_COLUMNS,
    )
    group: str | None = setting(
        text,
        Option(
            "group",
            "a consumer group under which the brokers store how far the stream has come, for tools such as "
            "`gantry consumer progress`; the stream itself continues from Spark's checkpoint and never reads it",
            query=Query.STREAM,
            aliases=("consumer.group", "rocketmq.source.group"),
            kafka=("kafka.group.id",),
        ),
    )
    read_timeout_ms: int = setting(
        duration_ms,
        Option(
            "readTimeout",
            "how long a request is repeated while brokers are unreachable",
            default="120s",
            kafka=("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
        ),
    )
    poll_interval_ms: int = setting(
        duration_ms,
        Option(
            "pollInterval",
            "how often the source asks while there are no new messages; every 10 ms in the 10 s after the last ones",
            default="50ms",
            query=Query.STREAM,
            in_any_query=True,
        ),
    )
    discovery_interval_ms: int = setting(
        duration_ms,
        Option(
            "discoveryInterval",
            "how often the source looks for new queues and topics",
            default="10s",
            query=Query.STREAM,
            aliases=("rocketmq.client.partition.discovery.interval.ms",),
            in_any_query=True,
        ),
    )
    pull_max_rows: int = setting(
        count,
        Option(
            "pullMaxRows",
            "the largest number of messages in one pull; an Apache broker answers 32 at a time, whatever the request "
            "says",
            default="10000",
            aliases=("pullBatchSize", "rocketmq.source.pull.batch.size"),
        ),
    )
    access: Access = setting(access_in, *options_of(Access), otherwise=Access())
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
            if BY_NAME[name].query is query and not BY_NAME[name].in_any_query:
                raise ConfigError(f"option {name} {advice}")
        return self


DECLARED: Final = options_of(SourceSettings)
"""Every option, in the order of the documentation."""

BY_NAME: Final = {option.name: option for option in DECLARED}

_PROGRESS: Final = "the position of a query is in Spark's checkpoint, and readers belong to no group that brokers know"

WITHOUT_COUNTERPART: Final[dict[str, str]] = {
    "groupIdPrefix": _PROGRESS,
    "kafka.auto.offset.reset": "`startingOffsets` says where a query starts; Kafka's source refuses it, too",
    "kafka.key.deserializer, kafka.value.deserializer": "the body is binary; decode it in a select (`from_registry`)",
    "kafka.enable.auto.commit": "the source stores no position of its own, except with `group`",
    "kafka.interceptor.classes": "there are no interceptors",
    "kafka.security.protocol, kafka.ssl.*": ENCRYPTED,
    "kafka.sasl.*, spark.kafka.clusters.*": SIGNED,
    "spark.kafka.consumer.cache.*": PER_PROCESS,
    "spark.kafka.consumer.fetchedData.cache.*": "a task reads a range once; nothing is kept for another task",
    "(column `timestampType`)": "a message has both times: `born_timestamp` (Kafka's type 0) and `store_timestamp` "
    "(type 1)",
    "(column pruning)": "Spark does not tell a Python source which columns a query uses: name them with `columns` or "
    "`.schema(...)`",
    "(real-time mode)": "Spark refuses Python sources there, also without its list of what it allows (Spark 4.3.0: "
    "`STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED`); the lowest latency is a micro-batch without a pause "
    "(`processingTime='0 seconds'`)",
    "(metrics of the source in the progress)": "Spark has no such hook for Python sources: use the listener of "
    "`gantrymq.spark.LagListener`",
}
"""The options and features of Spark's Kafka source without a counterpart here, each with its reason."""
