"""What is left to do with values after a library has decoded them: functions for the places where something is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]
"""From a value that is not null."""


def in_struct(fields: Mapping[str, Convert | None]) -> Convert | None:
    """Converts these fields of a mapping, in place; None if there is nothing to do."""
    chosen = [(name, convert) for name, convert in fields.items() if convert is not None]
    if not chosen:
        return None

    def convert_struct(value: Any) -> Any:
        for name, convert in chosen:
            if value.get(name) is not None:
                value[name] = convert(value[name])
        return value

    return convert_struct


def in_list(inner: Convert | None) -> Convert | None:
    """Converts the elements of a list."""
    if inner is None:
        return None
    return lambda values: [None if one is None else inner(one) for one in values]


def in_map(inner: Convert | None) -> Convert | None:
    """Converts the values of a mapping."""
    if inner is None:
        return None
    return lambda values: {name: None if one is None else inner(one) for name, one in values.items()}
