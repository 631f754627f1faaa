"""The declarations of all options of the sink ``rocketmq``: the one place for their names, meanings and defaults.

``sink/options.py`` reads what a user gives; ``option_pages.py`` makes the table in docs/spark-sink.md.
"""

from __future__ import annotations

from typing import Final

from gantrymq.spark.options.access import SECURITY_OPTIONS
from gantrymq.spark.options.table import BY_NAME, ENCRYPTED, PER_PROCESS, SIGNED, Option, Query

DECLARED: Final[tuple[Option, ...]] = (
    BY_NAME["nameServers"],
    Option("topic", "the topic of rows whose column `topic` is null or missing", kafka=("topic",)),
    Option(
        "namespace",
        "put before topics and groups on the wire (`namespace%topic`), also before the topics in the column `topic`",
        aliases=BY_NAME["namespace"].aliases,
    ),
    Option(
        "deliveryGuarantee",
        "`exactly_once` or `at_least_once`",
        default="exactly_once",
        kafka=("kafka.enable.idempotence",),
    ),
    Option(
        "producerGroup",
        "producer group of the half messages; queries with the same group share their control topic and their checkers",
        default="gantry-spark-sink",
    ),
    Option(
        "writeId",
        "with `exactly_once`: a name for this write. A second write with the same name adds nothing, so a job may be "
        "repeated. Name a write in `foreachBatch` after the query and the number of the batch",
        query=Query.BATCH,
    ),
    Option(
        "undecidedTimeout",
        "`exactly_once`: half messages of a batch that is not decided after this time are rolled back by a checker. It "
        "must be longer than any batch takes",
        default="1h",
    ),
    Option(
        "controlTopicLost",
        "`fail` or `accept`: what to do when the control topic knows nothing of a query that is not at its first batch",
        default="fail",
    ),
    Option(
        "writeTimeout",
        "how long a task tries again while brokers cannot be reached, or no name server knows the topics of "
        "decisions and places. Known ones are always tried for 120 s. The first batch of a query, and every batch "
        "write, fails after 10 s if no name server has "
        "answered: then the address is wrong, or `tls` is",
        default="120s",
        kafka=("kafka.delivery.timeout.ms", "kafka.retries"),
    ),
    Option("batchMaxRows", "largest number of messages in one request", default="500"),
    Option(
        "batchMaxBytes",
        "largest size of one request",
        default="512k",
        kafka=("kafka.batch.size", "kafka.max.request.size"),
    ),
    Option(
        "requestsInFlight",
        "requests that a task sends before it waits for the first answer",
        default="4",
        kafka=("kafka.max.in.flight.requests.per.connection",),
    ),
    *(BY_NAME[name] for name in SECURITY_OPTIONS),
)
"""Every option, in the order of the documentation."""

WITHOUT_COUNTERPART: Final[dict[str, str]] = {
    "includeHeaders": "the column `properties` is written when it is there",
    "kafka.acks": "the broker decides when a message is stored (`flushDiskType`, `inSyncReplicas`)",
    "kafka.linger.ms, kafka.buffer.memory": "a task sends full requests, and the rest at its end",
    "kafka.compression.type": "bodies are sent as they are; compress them in a select",
    "kafka.key.serializer, kafka.value.serializer": "the body is binary or text; make it in a select (`to_registry`)",
    "kafka.partitioner.class": "rows of one `ordering_key` go to one queue, and other requests take turns",
    "kafka.request.timeout.ms": "a request may take 15 s, and is repeated for `writeTimeout`",
    "kafka.transactional.id": "transactions need no id: `deliveryGuarantee` switches them on",
    "kafka.interceptor.classes": "there are no interceptors",
    "kafka.security.protocol, kafka.ssl.*": ENCRYPTED,
    "kafka.sasl.*, spark.kafka.clusters.*": SIGNED,
    "spark.kafka.producer.cache.*": PER_PROCESS,
    "(column `partition`)": "name an `ordering_key`: the queues of a topic may lie on several brokers",
}
"""The options and features of Spark's Kafka sink without a counterpart here, each with its reason."""
