"""The declarations of all options of the source ``rocketmq``: the one place for their names, meanings and defaults.

``settings.py`` reads what a user gives; ``option_pages.py`` makes the table in docs/spark.md. An option that has a
counterpart in Spark's Kafka source names it, and ``WITHOUT_COUNTERPART`` gives the reason for each option of the Kafka
source that has none here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Query(Enum):
    """The kind of query for which an option makes sense."""

    BOTH = "both"
    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the source."""

    name: str
    meaning: str
    """What the option does, with its unit: a sentence without its full stop, as an error or a table shows it."""
    default: str = ""
    """The default as a user would write it; empty if there is none."""
    query: Query = Query.BOTH
    aliases: tuple[str, ...] = ()
    """Other names that are accepted: those of the RocketMQ connectors for Spark and Flink."""
    kafka: tuple[str, ...] = ()
    """The options of Spark's Kafka source with the same idea."""
    secret: bool = False
    """No error, plan, log or progress may contain the value."""


_TIMES: Final = '`{"orders": {"broker-a": {"0": "2026-01-31T08:00:00Z"}}}`'

DECLARED: Final[tuple[Option, ...]] = (
    Option(
        "nameServers",
        "addresses of the name servers, separated by `;` or `,`; required",
        aliases=(
            "nameServer", "name.servers", "rocketmq.name.servers", "rocketmq.nameServer", "rocketmq.client.endpoints",
        ),
        kafka=("kafka.bootstrap.servers",),
    ),
    Option("subscribe", "topics, separated by `,`", aliases=("topic", "consumer.topic"), kafka=("subscribe",)),
    Option(
        "subscribePattern",
        "regular expression that a whole topic name must match; system topics never do, and new topics are found while "
        "a stream runs",
        kafka=("subscribePattern",),
    ),
    Option(
        "assign",
        'single queues: `{"orders": {"broker-a": [0, 1]}}`; a queue that does not exist is an error',
        kafka=("assign",),
    ),
    Option(
        "startingOffsets",
        "`earliest`, `latest` (stream only) or per queue: "
        '`{"orders": {"broker-a": {"0": 120, "1": -2}}}`, where -2 is the beginning and -1 the end of a queue; queues '
        "that are not named start at their beginning",
        default="earliest for a batch, latest for a stream",
        aliases=("consumer.offset",),
        kafka=("startingOffsets",),
    ),
    Option(
        "startingOffsetsByTimestamp",
        f"a starting time per queue: {_TIMES}; queues that are not named start at their beginning; has priority over "
        "`startingOffsets`",
        kafka=("startingOffsetsByTimestamp",),
    ),
    Option(
        "startingTimestamp",
        "start at the first message that was stored then or later: milliseconds since 1970, or an ISO 8601 time with "
        "its zone such as `2026-01-31T08:00:00Z`; has priority over the two options before it",
        kafka=("startingTimestamp",),
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "what happens when a queue has no message of the starting time or later: `error`, or `latest` to start at the "
        "end of that queue",
        default="error",
        kafka=("startingOffsetsByTimestampStrategy",),
    ),
    Option(
        "endingOffsets",
        "`latest` or per queue; queues that are not named are read to their end",
        default="latest",
        query=Query.BATCH,
        kafka=("endingOffsets",),
    ),
    Option(
        "endingOffsetsByTimestamp",
        "an ending time per queue, in the form of `startingOffsetsByTimestamp`; queues that are not named are read to "
        "their end; has priority over `endingOffsets`",
        query=Query.BATCH,
        kafka=("endingOffsetsByTimestamp",),
    ),
    Option(
        "endingTimestamp",
        "stop before the first message that was stored then or later, a time as in `startingTimestamp`; has priority "
        "over the two options before it",
        query=Query.BATCH,
        kafka=("endingTimestamp",),
    ),
    Option(
        "subExpression",
        "only the messages with certain tags, such as `paid || refunded`, or those that an SQL92 expression selects "
        "(see `subExpressionType`); the broker evaluates it, so other messages are not sent",
        default="*",
        aliases=("rocketmq.source.filter.tag", "consumer.tag"),
    ),
    Option(
        "subExpressionType",
        "`TAG`, or `SQL92` for an expression over the properties such as `amount > 100 AND TAGS = 'paid'`",
        default="TAG",
    ),
    Option(
        "maxOffsetsPerTrigger",
        "the largest number of messages in a micro-batch, divided among the queues in proportion to their backlog",
        query=Query.STREAM,
        kafka=("maxOffsetsPerTrigger",),
    ),
    Option(
        "maxBytesPerTrigger",
        "about how many bytes of messages a micro-batch has, such as `64m`, divided like `maxOffsetsPerTrigger`. The "
        "source looks at some messages to know their sizes, so a batch can be larger where a few are far larger than "
        "all others. Each queue gives at least one message",
        query=Query.STREAM,
    ),
    Option(
        "minOffsetsPerTrigger",
        "wait until there are this many new messages, but no longer than `maxTriggerDelay`; the triggers `once` and "
        "`availableNow` do not wait",
        query=Query.STREAM,
        kafka=("minOffsetsPerTrigger",),
    ),
    Option(
        "maxTriggerDelay",
        "the longest time between two micro-batches while fewer than `minOffsetsPerTrigger` messages are new",
        default="15m",
        query=Query.STREAM,
        kafka=("maxTriggerDelay",),
    ),
    Option(
        "minPartitions",
        "split queues until there are about this many tasks; by default there is one task for each queue, and small "
        "queues share a task",
        kafka=("minPartitions",),
    ),
    Option("maxRecordsPerPartition", "the largest number of rows in a task", kafka=("maxRecordsPerPartition",)),
    Option(
        "failOnDataLoss",
        "`true`: fail when messages of a range no longer exist, or a body cannot be decompressed; "
        "`false`: log it and continue behind them",
        default="true",
        kafka=("failOnDataLoss",),
    ),
    Option(
        "includeProperties",
        "`true`: add the column `properties`, a map",
        default="false",
        kafka=("includeHeaders",),
    ),
    Option("columns", "only these columns, separated by `,`; the others are not decoded"),
    Option(
        "group",
        "a consumer group under which the brokers store how far the stream has come, for tools such as "
        "`gantry consumer progress`; the stream itself continues from Spark's checkpoint and never reads it",
        query=Query.STREAM,
        aliases=("consumer.group", "rocketmq.source.group"),
        kafka=("kafka.group.id",),
    ),
    Option(
        "namespace",
        "put before topics and groups on the wire (`namespace%topic`) and taken off again",
        aliases=("rocketmq.client.namespace",),
    ),
    Option(
        "requestTimeout",
        "how long one request to a broker may take before it counts as failed",
        default="3s, and 30s for a pull",
        aliases=("pullTimeoutMs", "pullTimeout"),
        kafka=("kafkaConsumer.pollTimeoutMs",),
    ),
    Option(
        "readTimeout",
        "how long a request is repeated while brokers are unreachable",
        default="120s",
        kafka=("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    ),
    Option(
        "pollInterval",
        "how often the source asks while there are no new messages; every 10 ms in the 10 s after the last ones",
        default="50ms",
        query=Query.STREAM,
    ),
    Option(
        "discoveryInterval",
        "how often the source looks for new queues and topics",
        default="10s",
        query=Query.STREAM,
        aliases=("rocketmq.client.partition.discovery.interval.ms",),
    ),
    Option(
        "pullMaxRows",
        "the largest number of messages in one pull; an Apache broker answers 32 at a time, whatever the request says",
        default="10000",
        aliases=("pullBatchSize", "rocketmq.source.pull.batch.size"),
    ),
    Option("accessKey", "name of the account with which requests are signed", aliases=("rocketmq.client.accessKey",)),
    Option(
        "secretKey",
        "password of the account with which requests are signed",
        aliases=("rocketmq.client.secretKey",),
        secret=True,
    ),
    Option(
        "tls",
        "`true`: connect with TLS",
        default="false",
        aliases=("tls.enable", "rocketmq.client.tls.enable"),
    ),
    Option(
        "tlsTrustCertPath",
        "file with the certificates that are trusted, on every executor",
        aliases=("tls.client.trustCertPath",),
    ),
    Option("tlsCertPath", "file with the client's certificate, on every executor", aliases=("tls.client.certPath",)),
    Option("tlsKeyPath", "file with the client's key, on every executor", aliases=("tls.client.keyPath",)),
    Option("tlsKeyPassword", "password of that key", aliases=("tls.client.keyPassword",), secret=True),
)  # fmt: skip
"""Every option, in the order of the documentation."""

BY_NAME: Final = {option.name: option for option in DECLARED}

_PROGRESS: Final = "the position of a query is in Spark's checkpoint, and readers belong to no group that brokers know"
PER_PROCESS: Final = "each worker process keeps one connection per cluster for its life, so there is no pool to limit"
ENCRYPTED: Final = "`tls` and the options that begin with it"
SIGNED: Final = "RocketMQ signs each request with a key: `accessKey`, `secretKey`"

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
