"""The options of the sink ``rocketmq``: their declarations, and how Spark's map of texts becomes frozen settings.

``option_pages.py`` makes the table in docs/spark-sink.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final

from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.message import system_topics
from gantrymq.spark.options.access import ENCRYPTED, NAME_SERVERS, PER_PROCESS, SECURITY, SIGNED, Access, access_in
from gantrymq.spark.options.names import OptionNames
from gantrymq.spark.options.option import Option, Query, options_of, setting, values_in
from gantrymq.spark.options.values import chosen, duration_ms, servers, size_bytes, text, text_or_none

_FROM_SPARK: Final = frozenset({"checkpointlocation", "queryname", "path", "provider", "owner"})
"""Options (in lower case) that Spark itself adds to those of a sink."""

MAX_ROWS: Final = 4_000
"""The most half messages that a broker takes in one request."""
MAX_BYTES: Final = 4 * 1024 * 1024 - 64 * 1024
"""A broker takes 4 MiB at most (maxMessageSize)."""
MAX_UNDECIDED_S: Final = 999_999_999
"""The immunity of a half message has nine digits at most."""
DEFAULT_GROUP: Final = "gantry-spark-sink"


class Guarantee(Enum):
    """How often the message of a row is in its topic, whatever fails."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


def _topic(options: Mapping[str, str], name: str) -> str:
    topic, namespace = options[name].strip(), options.get("namespace") or None
    try:
        system_topics.check_topic(topic)
        topic = with_namespace(namespace, topic)
        system_topics.check_topic(topic)
    except MessageIllegal as error:
        also = "" if namespace is None else " and namespace"
        raise ConfigError(f"option topic{also}: {error}") from error
    return topic


def _group(options: Mapping[str, str], name: str) -> str:
    group, namespace = options[name].strip(), options.get("namespace") or None
    try:
        system_topics.check_group(group)
        group = with_namespace(namespace, group)
        system_topics.check_group(group)
        system_topics.check_topic(f"{group}-decisions")
    except MessageIllegal as error:
        also = "" if namespace is None else " and namespace"
        raise ConfigError(f"option producerGroup{also}: {error}") from error
    return group


def _number(options: Mapping[str, str], name: str, most: int) -> int:
    text = options[name].strip()
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= most:
        raise ConfigError(f"option {name} is {text!r}; allowed is a whole number from 1 to {most}")
    return int(text)


def _guarantee(options: Mapping[str, str], name: str) -> Guarantee:
    return Guarantee(chosen(options, name, tuple(each.value for each in Guarantee)))


def _access(options: Mapping[str, str], name: str) -> Access:
    return replace(access_in(options), namespace=None)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The settings of one query or write. Topic and group are as brokers know them, with their namespace. Each field
    declares the options that it is read from."""

    name_servers: str = setting(servers, NAME_SERVERS, otherwise="")
    topic: str | None = setting(
        _topic, Option("topic", "the topic of rows whose column `topic` is null or missing", kafka=("topic",))
    )
    namespace: str | None = setting(
        text_or_none,
        Option(
            "namespace",
            "put before topics and groups on the wire (`namespace%topic`), also before the topics in the column "
            "`topic`",
            aliases=("rocketmq.client.namespace",),
        ),
    )
    """Of the topics that rows name."""
    guarantee: Guarantee = setting(
        _guarantee,
        Option(
            "deliveryGuarantee",
            "`exactly_once` or `at_least_once`",
            default="exactly_once",
            kafka=("kafka.enable.idempotence",),
        ),
    )
    group: str = setting(
        _group,
        Option(
            "producerGroup",
            "producer group of the half messages; queries with the same group share their control topic and their "
            "checkers",
            default="gantry-spark-sink",
        ),
    )
    write_id: str | None = setting(
        text,
        Option(
            "writeId",
            "with `exactly_once`: a name for this write. A second write with the same name adds nothing, so a job may "
            "be repeated. Name a write in `foreachBatch` after the query and the number of the batch",
            query=Query.BATCH,
        ),
    )
    undecided_timeout_ms: int = setting(
        partial(duration_ms, least=1000),
        Option(
            "undecidedTimeout",
            "`exactly_once`: half messages of a batch that is not decided after this time are rolled back by a "
            "checker. It must be longer than any batch takes",
            default="1h",
        ),
    )
    accept_lost_control_topic: bool = setting(
        lambda options, name: chosen(options, name, ("fail", "accept")) == "accept",
        Option(
            "controlTopicLost",
            "`fail` or `accept`: what to do when the control topic knows nothing of a query that is not at its first "
            "batch",
            default="fail",
        ),
    )
    write_timeout_ms: int = setting(
        duration_ms,
        Option(
            "writeTimeout",
            "how long a task tries again while brokers cannot be reached, or no name server knows the topics of "
            "decisions and places. Known ones are always tried for 120 s. The first batch of a query, and every batch "
            "write, fails after 10 s if no name server has "
            "answered: then the address is wrong, or `tls` is",
            default="120s",
            kafka=("kafka.delivery.timeout.ms", "kafka.retries"),
        ),
    )
    batch_max_rows: int = setting(
        partial(_number, most=MAX_ROWS),
        Option("batchMaxRows", "largest number of messages in one request", default="500"),
    )
    batch_max_bytes: int = setting(
        partial(size_bytes, least=1024, most=MAX_BYTES),
        Option(
            "batchMaxBytes",
            "largest size of one request",
            default="512k",
            kafka=("kafka.batch.size", "kafka.max.request.size"),
        ),
    )
    requests_in_flight: int = setting(
        partial(_number, most=64),
        Option(
            "requestsInFlight",
            "requests that a task sends before it waits for the first answer",
            default="4",
            kafka=("kafka.max.in.flight.requests.per.connection",),
        ),
    )
    access: Access = setting(_access, *SECURITY, otherwise=Access())


DECLARED: Final = options_of(SinkSettings)
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
_NAMES: Final = OptionNames("the sink rocketmq", DECLARED, WITHOUT_COUNTERPART)


def parse_sink_options(given: Mapping[str, str]) -> SinkSettings:
    """The settings in Spark's options. Raises ConfigError, which names the option and its allowed values."""
    options = _NAMES.canonical(given, _is_of_spark)
    if not options.get("nameServers", "").strip(" ;,"):
        raise ConfigError("option nameServers is missing; give the name servers, for example 127.0.0.1:9876")
    values = values_in(options, SinkSettings)
    if options.get("namespace"):
        values["group"] = _group({"producerGroup": DEFAULT_GROUP, **options}, "producerGroup")
    settings = SinkSettings(**values)
    if settings.write_id is not None and settings.guarantee is Guarantee.AT_LEAST_ONCE:
        raise ConfigError("writeId works with deliveryGuarantee=exactly_once only; remove one of them")
    if settings.undecided_timeout_ms // 1000 > MAX_UNDECIDED_S:
        raise ConfigError(f"option undecidedTimeout is longer than {MAX_UNDECIDED_S} s; give a shorter time")
    return settings


def _is_of_spark(name: str) -> bool:
    return name in _FROM_SPARK or name.startswith("option.")
