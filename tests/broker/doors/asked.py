"""Which operations there are, and which of them a caller asks for."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

PARTS: Final = {
    "transactions": ("ends", "ends_many"),
    "consuming.popping": ("requests", "acks", "assignments", "lite"),
    "administration.explaining": ("explanations", "explanations.pages"),
}
"""Operations that are no part of the list themselves, but hold some."""

BY_THE_BROKER: Final = {
    "members.connection_closed": "the broker says it, when a door told it that a client is gone",
    "members.expire": "the broker's duty, once in a while",
    "consuming.popping.assignments.close": "the broker stops",
    "consuming.popping.lite.client_gone": "a door says it, when a client is gone",
    "consuming.popping.lite.deleted": "the broker's duty, once in a while",
    "consuming.popping.lite.expire": "the broker's duty, once in a while",
    "consuming.popping.lite.opened": "an acknowledgement did it",
    "consuming.popping.lite.resume": "the broker starts",
    "consuming.popping.acks.may_go_on": "a door asks it for itself, before acknowledgements that come late",
    "administration.topics.update": "administration.changes.add makes it",
    "administration.topics.update_each": "administration.changes.add makes it",
    "administration.topics.check_deletion": "administration.changes.add asks it",
    "administration.topics.delete": "administration.changes.add makes it",
    "administration.topics.delete_each": "administration.changes.add makes it",
    "administration.groups.update_each": "administration.changes.add makes it",
    "administration.groups.delete": "administration.changes.add makes it",
}
"""What no client asks for, and why."""


def asks(*operations: str) -> Callable[[F], F]:
    """Marks a method of a caller with the operations that it asks for."""

    def marked(method: F) -> F:
        method.operations = operations  # type: ignore[attr-defined]
        return method

    return marked


def methods(door: type) -> dict[str, tuple[str, ...]]:
    """The methods of a caller by name, and the operations that each asks for."""
    return {name: method.operations for name, method in inspect.getmembers(door) if hasattr(method, "operations")}


def operations(whole: Any) -> set[str]:
    """All that a door can ask of a broker whose ``Operations`` are ``whole``, by their dotted names."""
    return set(_below(whole, "")) - BY_THE_BROKER.keys()


def _below(part: Any, path: str) -> Iterator[str]:
    if path.removesuffix(".") in PARTS:
        for name in PARTS[path.removesuffix(".")]:
            inner = part
            for word in name.split("."):
                inner = getattr(inner, word)
            yield from _of(inner, f"{path}{name}.")
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from _below(getattr(part, field.name), f"{path}{field.name}.")
    elif part is not None:
        yield from _of(part, path)


def _of(part: Any, path: str) -> Iterator[str]:
    for name, member in inspect.getmembers(type(part)):
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield f"{path}{name}"
