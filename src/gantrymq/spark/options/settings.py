"""Reads and checks the options of the format ``rocketmq``, and returns frozen settings.

The options are declared in ``table.py``: their names, meanings, values and defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.spark.options.names import OptionNames
from gantrymq.spark.options.option import values_in
from gantrymq.spark.options.table import DECLARED, WITHOUT_COUNTERPART, SourceSettings

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


def parse_options(given: Mapping[str, str]) -> SourceSettings:
    """The settings in Spark's options. Raises ConfigError, which names the option and its allowed values."""
    options = _NAMES.canonical(given, _is_of_table)
    if not options.get("nameServers", "").strip(" ;,"):
        raise ConfigError(
            f"option nameServers is missing; give the name servers, for example 127.0.0.1:9876. {_TABLE_FORMS}"
        )
    selected = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(selected) != 1:
        raise ConfigError(
            f"give exactly one of subscribe, subscribePattern and assign; given: {', '.join(selected) or 'none'}"
        )
    settings = SourceSettings(**values_in(options, SourceSettings), given=frozenset(options))
    least, most = settings.min_offsets_per_trigger, settings.max_offsets_per_trigger
    if least and most and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger is {least}, which is more than maxOffsetsPerTrigger, {most}")
    return settings


def _is_of_table(name: str) -> bool:
    return name in _OF_TABLES or name.startswith("option.")
