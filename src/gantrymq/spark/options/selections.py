"""Which topics, queues, messages and columns a query reads, as its options say it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gantrymq.client.consuming.filters import EVERYTHING, SQL92, TAG, Filter, filter_of
from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.columns.rows import DEFAULT_COLUMNS, check_columns
from gantrymq.spark.options.values import chosen, truth, words


def topics(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Names of topics, each once."""
    found = words(options[name])
    if not found:
        raise ConfigError(f"option {name} names no topic")
    return tuple(dict.fromkeys(found))


def pattern(options: Mapping[str, str], name: str) -> str:
    """A regular expression."""
    try:
        re.compile(options[name])
    except re.error as error:
        raise ConfigError(f"option {name} is no regular expression: {error}") from error
    return options[name]


def queues(options: Mapping[str, str], name: str) -> tuple[MessageQueue, ...]:
    """Single queues."""
    try:
        tree = msgspec.json.decode(options[name], type=dict[str, dict[str, list[int]]])
    except msgspec.DecodeError as error:
        raise ConfigError(
            f'option {name} has the wrong form ({error}); write for example {{"orders": {{"broker-a": [0, 1]}}}}'
        ) from error
    found = {
        MessageQueue(topic, broker, queue_id)
        for topic, brokers in tree.items()
        for broker, ids in brokers.items()
        for queue_id in ids
    }
    if not found:
        raise ConfigError(f"option {name} names no queue")
    return tuple(sorted(found))


def columns(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The columns of the rows; ``includeProperties`` adds one."""
    found = check_columns(words(options[name])) if name in options else DEFAULT_COLUMNS
    if truth(options, "includeProperties", default=False) and "properties" not in found:
        return (*found, "properties")
    return found


def message_filter(options: Mapping[str, str], name: str) -> Filter:
    """What the broker selects, by tags or by an expression."""
    kind = chosen(options, "subExpressionType", (TAG, SQL92))
    if kind == SQL92 and name not in options:
        raise ConfigError("option subExpressionType is SQL92, but subExpression, the expression, is missing")
    text = options.get(name, "*")
    if kind == TAG and text.strip() in ("", "*"):
        return EVERYTHING
    try:
        return filter_of(text) if kind == TAG else filter_of("*", text)
    except ConfigError as error:
        raise ConfigError(f"option {name}: {error}") from None
