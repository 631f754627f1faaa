"""The options of the sink: reads and checks Spark's map of texts, and returns frozen settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.message import system_topics
from gantrymq.spark.options.access import Access, access_of
from gantrymq.spark.options.names import OptionNames
from gantrymq.spark.options.values import size_bytes
from gantrymq.spark.sink.option_table import DECLARED, WITHOUT_COUNTERPART

_FROM_SPARK: Final = frozenset({"checkpointlocation", "queryname", "path", "provider", "owner"})
"""Options (in lower case) that Spark itself adds to those of a sink."""
_NAMES: Final = OptionNames("the sink rocketmq", DECLARED, WITHOUT_COUNTERPART)
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h)?")
_UNITS_MS: Final = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}

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


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The settings of one query or write. Topic and group are as brokers know them, with their namespace."""

    name_servers: str
    topic: str | None = None
    namespace: str | None = None
    """Of the topics that rows name."""
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    group: str = DEFAULT_GROUP
    write_id: str | None = None
    undecided_timeout_ms: int = 3_600_000
    accept_lost_control_topic: bool = False
    write_timeout_ms: int = 120_000
    batch_max_rows: int = 500
    batch_max_bytes: int = 512 * 1024
    requests_in_flight: int = 4
    access: Access = field(default_factory=Access)


def parse_sink_options(given: Mapping[str, str]) -> SinkSettings:
    """The settings in Spark's options. Raises ConfigError, which names the option and its allowed values."""
    options = _NAMES.canonical(given, _is_of_spark)
    servers = [word.strip() for word in re.split("[;,]", options.get("nameServers", "")) if word.strip()]
    if not servers:
        raise ConfigError("option nameServers is missing; give the name servers, for example 127.0.0.1:9876")
    defaults, access = SinkSettings(""), access_of(options)
    settings = SinkSettings(
        name_servers=";".join(servers),
        topic=_topic(options, access.namespace),
        namespace=access.namespace,
        guarantee=Guarantee(_choice(options, "deliveryGuarantee", [each.value for each in Guarantee])),
        group=_group(options, access.namespace),
        write_id=options.get("writeId"),
        undecided_timeout_ms=_duration_ms(options, "undecidedTimeout", defaults.undecided_timeout_ms, least=1000),
        accept_lost_control_topic=_choice(options, "controlTopicLost", ["fail", "accept"]) == "accept",
        write_timeout_ms=_duration_ms(options, "writeTimeout", defaults.write_timeout_ms),
        batch_max_rows=_number(options, "batchMaxRows", defaults.batch_max_rows, MAX_ROWS),
        batch_max_bytes=size_bytes(options, "batchMaxBytes", 1024, MAX_BYTES) or defaults.batch_max_bytes,
        requests_in_flight=_number(options, "requestsInFlight", defaults.requests_in_flight, 64),
        access=replace(access, namespace=None),
    )
    if settings.write_id is not None and settings.guarantee is Guarantee.AT_LEAST_ONCE:
        raise ConfigError("writeId works with deliveryGuarantee=exactly_once only; remove one of them")
    if settings.undecided_timeout_ms // 1000 > MAX_UNDECIDED_S:
        raise ConfigError(f"option undecidedTimeout is longer than {MAX_UNDECIDED_S} s; give a shorter time")
    return settings


def _is_of_spark(name: str) -> bool:
    return name in _FROM_SPARK or name.startswith("option.")


def _topic(options: Mapping[str, str], namespace: str | None) -> str | None:
    if "topic" not in options:
        return None
    topic = options["topic"].strip()
    try:
        system_topics.check_topic(topic)
        topic = with_namespace(namespace, topic)
        system_topics.check_topic(topic)
    except MessageIllegal as error:
        also = "" if namespace is None else " and namespace"
        raise ConfigError(f"option topic{also}: {error}") from error
    return topic


def _group(options: Mapping[str, str], namespace: str | None) -> str:
    group = options.get("producerGroup", DEFAULT_GROUP).strip()
    try:
        system_topics.check_group(group)
        group = with_namespace(namespace, group)
        system_topics.check_group(group)
        system_topics.check_topic(f"{group}-decisions")
    except MessageIllegal as error:
        also = "" if namespace is None else " and namespace"
        raise ConfigError(f"option producerGroup{also}: {error}") from error
    return group


def _choice(options: Mapping[str, str], name: str, allowed: list[str]) -> str:
    """One of ``allowed``, of which the first is the default."""
    text = options.get(name, allowed[0]).strip().lower()
    if text not in allowed:
        raise ConfigError(f"option {name} is {options[name]!r}; allowed are {' and '.join(allowed)}")
    return text


def _number(options: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name, str(default)).strip()
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= most:
        raise ConfigError(f"option {name} is {text!r}; allowed is a whole number from 1 to {most}")
    return int(text)


def _duration_ms(options: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    if name not in options:
        return default
    match = _DURATION.fullmatch(options[name].strip().lower())
    value = int(match[1]) * _UNITS_MS[match[2]] if match else -1
    if value < least:
        minimum = f", {least} ms or more" if least else ""
        raise ConfigError(
            f"option {name} is {options[name]!r}; allowed are times like 500ms, 90s, 2m (a number is ms){minimum}"
        )
    return value
