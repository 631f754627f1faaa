"""How the needs of a request are written down: as values that a table of request codes consists of.

The same values answer two questions: what does this request need, and what does the documentation say about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gantrymq.access.values import Action, Kind, Need, group_need, send_need, topic_need
from gantrymq.errors import GantryError
from gantrymq.protocol.command import Command


class Unclear(GantryError):
    """A request does not say what it is about, so nobody can say whether it is allowed."""


class Places(Protocol):
    """What a server knows of the messages that a request names by their place. None: there is nothing."""

    def topic_of_half(self, queue_offset: int, log_offset: int) -> str | None:
        """The topic that consumers would get a half message under."""

    def topics_at(self, log_offset: int) -> tuple[str, ...]:
        """The topics whose rights open a message: those that its sender meant, wherever it waits; of an undecided
        message the topic of the system in which it lies. None: nothing is there.
        """

    def real_topic_at(self, log_offset: int) -> str | None:
        """The topic that the sender meant."""


class NoPlaces:
    """A server without messages."""

    def topic_of_half(self, queue_offset: int, log_offset: int) -> str | None:
        return None

    def topics_at(self, log_offset: int) -> tuple[str, ...]:
        return ()

    def real_topic_at(self, log_offset: int) -> str | None:
        return None


class Asked(NamedTuple):
    """A request, and where it was received."""

    command: Command
    fields: Mapping[str, str]
    """The extension fields of the request."""
    places: Places
    cluster: str
    """The cluster of the server."""


class Ask(Protocol):
    """A part of what a request needs."""

    @property
    def text(self) -> str:
        """For the documentation."""

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The extension fields that alone say what is needed; None: the body or the store says it, too."""

    def needs(self, asked: Asked) -> Iterable[Need]:
        """Raises Unclear, or RemoteProtocolError for a request that cannot be read."""


@dataclass(frozen=True, slots=True)
class Named:
    """Some actions on a topic, group or cluster that an extension field names."""

    kind: Kind
    field: str
    actions: tuple[Action, ...]
    optional: bool = False
    """Whether a request without the field is clear all the same."""
    separator: str = ""
    """What separates several names."""

    @property
    def text(self) -> str:
        names = "each of " if self.separator else ""
        when = ", if given" if self.optional else ""
        return f"{_words(self.actions)} on {self.kind.value} {names}`{self.field}`{when}"

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,)

    def needs(self, asked: Asked) -> Iterator[Need]:
        value = asked.fields.get(self.field, "")
        names = [name for name in value.split(self.separator) if name] if self.separator else [value] if value else []
        if not names and not self.optional:
            raise Unclear(f"the request has no {self.field}, so it cannot be judged")
        for name in names:
            if self.kind is Kind.TOPIC:
                yield topic_need(name, self.actions)
            elif self.kind is Kind.GROUP:
                yield group_need(name, self.actions)
            else:
                yield Need(self.kind, name, self.actions)


@dataclass(frozen=True, slots=True)
class Sending:
    """The right to send to the topic that an extension field names."""

    field: str

    @property
    def text(self) -> str:
        return f"Pub on Topic `{self.field}`; of a retry topic: Sub on its group"

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,)

    def needs(self, asked: Asked) -> Iterator[Need]:
        topic = asked.fields.get(self.field)
        if not topic:
            raise Unclear(f"the request has no {self.field}, so it cannot be judged")
        yield send_need(topic)


@dataclass(frozen=True, slots=True)
class OnCluster:
    """Some actions on the cluster of the server."""

    actions: tuple[Action, ...]

    @property
    def text(self) -> str:
        return f"{_words(self.actions)} on Cluster"

    @property
    def fields(self) -> tuple[str, ...]:
        return ()

    def needs(self, asked: Asked) -> Iterator[Need]:
        yield Need(Kind.CLUSTER, asked.cluster, self.actions)


@dataclass(frozen=True, slots=True)
class Computed:
    """Whatever a function finds in the request."""

    text: str
    find: Callable[[Asked], Iterable[Need]]
    fields: tuple[str, ...] | None = None
    """See ``Ask``."""

    def needs(self, asked: Asked) -> Iterable[Need]:
        return self.find(asked)


def _words(actions: tuple[Action, ...]) -> str:
    return " or ".join(action.value for action in actions)


Row = tuple[Ask, ...]
"""Everything that one kind of request needs. Empty: a signature, and nothing else."""


def deciding_fields(row: Row) -> tuple[str, ...] | None:
    """The extension fields that alone say what a request needs; None: there is more that decides."""
    names: dict[str, None] = {}
    for ask in row:
        if ask.fields is None:
            return None
        names |= dict.fromkeys(ask.fields)
    return tuple(names)
