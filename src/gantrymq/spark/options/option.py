"""What an option is, and settings whose fields are declared by options.

One declaration is enough for an option: its names, what it means, how its text is read, and what holds without it.
Parsing, the checks of names and of queries, and the pages of options are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, TypeAlias


class Query(Enum):
    """The kind of query for which an option makes sense."""

    BOTH = "both"
    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the source or of the sink."""

    name: str
    meaning: str
    """What the option does, with its unit: a sentence without its full stop, as an error or a table shows it."""
    default: str = ""
    """The default as a user would write it; empty if there is none."""
    query: Query = Query.BOTH
    in_any_query: bool = False
    """Whether queries of the other kind accept the option all the same, because the same options often serve both."""
    aliases: tuple[str, ...] = ()
    """Other names that are accepted: those of the RocketMQ connectors for Spark and Flink."""
    kafka: tuple[str, ...] = ()
    """The options of Spark's Kafka connector with the same idea."""
    secret: bool = False
    """No error, plan, log or progress may contain the value."""


Read: TypeAlias = Callable[[Mapping[str, str], str], Any]
"""From the options, under their main names, and the name of the first option of a field to the value of the field.
Raises ConfigError, which names the option and its allowed values."""

_OPTIONS, _READ = "options", "read"
_FROM_DEFAULT: Final = object()


def setting(read: Read, *options: Option, otherwise: Any = _FROM_DEFAULT) -> Any:
    """A field of settings, with the options from which it is read.

    ``otherwise``: its value when none of them is given; otherwise that of the default of the first one, or None.
    """
    first = options[0]
    if otherwise is _FROM_DEFAULT:
        otherwise = read({first.name: first.default}, first.name) if first.default else None
    return field(default=otherwise, metadata={_OPTIONS: options, _READ: read})


def options_of(settings: type) -> tuple[Option, ...]:
    """The options that the fields of a class declare, in their order."""
    return tuple(option for one in fields(settings) for option in one.metadata.get(_OPTIONS, ()))


def first_options(settings: type) -> dict[str, Option]:
    """The first option of each field, by the name of the field."""
    return {one.name: one.metadata[_OPTIONS][0] for one in fields(settings) if _OPTIONS in one.metadata}


def values_in(options: Mapping[str, str], settings: type) -> dict[str, Any]:
    """The fields that the options give, by their names. Raises ConfigError for a value that is not allowed."""
    return {
        one.name: one.metadata[_READ](options, one.metadata[_OPTIONS][0].name)
        for one in fields(settings)
        if any(option.name in options for option in one.metadata.get(_OPTIONS, ()))
    }
