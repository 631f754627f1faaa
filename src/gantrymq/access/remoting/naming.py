"""How a remoting request is read for the guard: which operation it is, and what it names in which role.

The same values answer two questions: what does this request need, and what does the documentation say about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gantrymq.access.operations import Operation, Right, Role, words
from gantrymq.access.places import Places
from gantrymq.access.values import Need
from gantrymq.errors import GantryError
from gantrymq.protocol.command import Command


class Unclear(GantryError):
    """A request does not say what it is about, so nobody can say whether it is allowed."""


class Asked(NamedTuple):
    """A request, and where it was received."""

    command: Command
    fields: Mapping[str, str]
    """The extension fields of the request."""
    places: Places
    cluster: str
    """The cluster of the server."""


class Source(Protocol):
    """Where a request names something."""

    @property
    def text(self) -> str:
        """For the documentation."""

    @property
    def field(self) -> str | None:
        """The extension field that alone says it; None: the body or the store says it, too."""

    def names(self, asked: Asked) -> Iterable[str]:
        """Raises Unclear, or RemoteProtocolError for a request that cannot be read."""


@dataclass(frozen=True, slots=True)
class Field:
    """An extension field has the name."""

    name: str
    optional: bool = False
    """Whether a request without the field is clear all the same."""
    separator: str = ""
    """What separates several names."""

    @property
    def text(self) -> str:
        return f"{'each of ' if self.separator else ''}`{self.name}`{', if given' if self.optional else ''}"

    @property
    def field(self) -> str | None:
        return self.name

    def names(self, asked: Asked) -> Iterable[str]:
        value = asked.fields.get(self.name, "")
        names = [name for name in value.split(self.separator) if name] if self.separator else [value] if value else []
        if not names and not self.optional:
            raise Unclear(f"the request has no {self.name}, so it cannot be judged")
        return names


@dataclass(frozen=True, slots=True)
class Found:
    """A function finds the names in the request, or in what it points to."""

    text: str
    find: Callable[[Asked], Iterable[str]]

    @property
    def field(self) -> str | None:
        return None

    def names(self, asked: Asked) -> Iterable[str]:
        return self.find(asked)


class Row(Protocol):
    """What one kind of request is."""

    @property
    def text(self) -> str:
        """For the documentation: what the user needs."""

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The extension fields that alone say what is needed; None: there is more that decides."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What the request may be."""

    def needs(self, asked: Asked) -> Iterable[Need]:
        """Raises Unclear, or RemoteProtocolError for a request that cannot be read."""


@dataclass(frozen=True, slots=True)
class Is:
    """A request is this operation, and names what it needs so."""

    operation: Operation
    topic: tuple[Source, ...] = ()
    group: tuple[Source, ...] = ()
    other_group: tuple[Source, ...] = ()
    cluster: tuple[Source, ...] = ()

    @property
    def operations(self) -> tuple[Operation, ...]:
        return (self.operation,)

    def sources(self, role: Role) -> tuple[Source, ...]:
        """Where the names of a role are."""
        return getattr(self, role.name.lower())  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        on_cluster = [f"{words(self.operation.on_cluster)} on Cluster"] if self.operation.on_cluster else []
        parts = [self._words(right) for right in self.operation.rights if self.sources(right.role)]
        return "; ".join((*on_cluster, *parts))

    def _words(self, right: Right) -> str:
        named = f"{right.text} {' and '.join(source.text for source in self.sources(right.role))}"
        return f"{named}; of a retry topic: {words(right.of_retry)} on its group" if right.of_retry else named

    @property
    def fields(self) -> tuple[str, ...] | None:
        names: dict[str, None] = {}
        for source in (*self.topic, *self.group, *self.other_group, *self.cluster):
            if source.field is None:
                return None
            names[source.field] = None
        return tuple(names)

    def needs(self, asked: Asked) -> Iterator[Need]:
        """Nothing is read before it is asked for: a super user may send what cannot be read; the operation says so."""
        names = {right.role: self._names(right.role, asked) for right in self.operation.rights}
        return self.operation.needs(names, asked.cluster)

    def _names(self, role: Role, asked: Asked) -> Iterator[str]:
        for source in self.sources(role):
            yield from source.names(asked)


@dataclass(frozen=True, slots=True)
class Either:
    """A request is one of two operations."""

    when: Callable[[Asked], bool]
    words: str
    """When it is the second one."""
    usually: Row
    otherwise: Row

    @property
    def operations(self) -> tuple[Operation, ...]:
        return self.usually.operations + self.otherwise.operations

    @property
    def text(self) -> str:
        return f"{self.usually.text}; {self.words}: {self.otherwise.text}"

    @property
    def fields(self) -> tuple[str, ...] | None:
        return None

    def needs(self, asked: Asked) -> Iterable[Need]:
        return (self.otherwise if self.when(asked) else self.usually).needs(asked)
