"""Who talks to a broker, whatever the door: what operations may know of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gantrymq.broker.transactions.check import Check


class Client(Protocol):
    """One connection of a client, from its first request to its end.

    What it is a member of (producer groups, consumer groups) is in ``registries.clients``, by its ``id``.
    """

    @property
    def id(self) -> int:
        """Unique among all connections of this broker, whatever door they came through."""

    @property
    def address(self) -> str:
        """``ip:port`` of the client."""

    @property
    def host(self) -> bytes:
        """The same as a record has it: packed address and port."""

    @property
    def alive(self) -> bool:
        """False from the end of the connection on."""

    @property
    def writable(self) -> bool:
        """False while the client does not read what was sent to it and too much is unsent."""


class Connection(Client, Protocol):
    """A client to which the broker can say something, too."""

    def ask(self, check: Check) -> None:
        """Ask a producer what became of its local transaction. Nothing is returned: the answer is a request."""

    @property
    def peer(self) -> str: ...

    def send(self, frame: bytes) -> None: ...

    def next_opaque(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Operator:
    """A person who decides in place of a program."""

    note: str
    """Who it is and why, as the person gave it; kept with the decision."""
