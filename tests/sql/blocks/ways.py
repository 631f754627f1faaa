"""A way in with one database and one setting: it runs blocks, and can be thrown away."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final

from gantrymq.sql import Transactions
from tests.sql.blocks.grounds import SETTINGS, Ground
from tests.sql.blocks.play import Hands, Impossible
from tests.sql.cutting_proxy import CuttingProxy

Body = Callable[[Hands], Awaitable[None]]
ATTEMPTS: Final = 2
"""Of ``run``."""
ELSEWHERE: Final = {"other_loop": "begin", "maker_elsewhere": "maker", "begin_elsewhere": "begin"}
"""Forms on another event loop: our own block, which we refuse, and a session of the program."""


class Site(ABC):
    """Blocks of one way in, on one database, with one setting. Made anew where a block has left it dirty."""

    way: str
    forms: tuple[str, ...]
    ours: frozenset[str] = frozenset()
    """The forms in which our library makes the transaction: they answer also for a block without a message."""
    settings: ClassVar[dict[str, tuple[str, ...]]]
    """The settings for each kind of database; the first one is the usual one."""
    savepoints: ClassVar[dict[str, tuple[str, ...]]]
    calls: ClassVar[dict[str, tuple[str, ...]]]

    def __init__(self, ground: Ground, setting: str) -> None:
        self.strange_for = 0
        """See ``harness.STRANGE_FOR``."""
        self.ground = ground
        self.setting = setting
        self.proxy = CuttingProxy(ground.place.port) if setting == "proxy" else None
        self.open()

    @property
    def place(self) -> Any:
        """The database as the way in is told it: perhaps behind a proxy."""
        place = self.ground.place
        return place if self.proxy is None else replace(place, port=self.proxy.port)

    @abstractmethod
    def open(self) -> None:
        """Make engines and Transactions."""

    @abstractmethod
    def run(self, form: str, body: Body) -> None:
        """One block; the body is called once for each attempt. Raises what the block raises."""

    @abstractmethod
    def close(self) -> None: ...

    def end(self) -> None:
        """Everything of this site."""
        with suppress(Exception):
            self.close()
        if self.proxy is not None:
            self.proxy.__exit__(None, None, None)

    def rows(self) -> set[int] | None:
        """Where the database is not the ground's: its rows."""
        return None

    def outcomes(self) -> dict[str, int] | None:
        return None

    def cut(self, kind: str, raw: Callable[[], Any]) -> None:
        """Lose the connection ``raw()`` now, or at the next COMMIT."""
        if kind in ("cut_before", "cut_after"):
            if self.proxy is None:
                raise Impossible
            self.proxy.cut("before" if kind == "cut_before" else "after")
            return
        shut(raw())


def shut(raw: Any) -> None:
    """End the socket of a driver's connection; the driver does not know."""
    sock = getattr(raw, "_sock", None)
    if sock is not None:  # PyMySQL
        sock.shutdown(socket.SHUT_RDWR)
    elif type(raw).__module__.partition(".")[0] == "psycopg":
        copy = socket.socket(fileno=os.dup(raw.fileno()))
        copy.shutdown(socket.SHUT_RDWR)
        copy.close()
    else:
        raise Impossible


def group_of(ground: Ground, more: str = "") -> str:
    """Each database has a producer group of its own."""
    return f"blocks-{ground.kind}{more}"


def service(ground: Ground, database: Any, group: str = "", **more: Any) -> Any:
    """Our Transactions of this process."""
    return Transactions(group or group_of(ground), database, **{**SETTINGS, **more})
