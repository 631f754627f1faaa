"""The figures of all clients of this process: of those that live, and the sums of those that are gone."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from functools import partial
from typing import Final

from gantrymq.client.metrics.figures import Backlog, ClientFigures, OutboxFigures

GONE_MAX: Final = 100
"""So many clients may be gone before their figures are added up, if nobody reads."""


class Registry:
    """Clients of one process. Any thread may call any method."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin at 0, as a forked child does: its parent counts on."""
        self._live: dict[int, ClientFigures] = {}
        self._gone: deque[int] = deque()
        """Clients that the garbage collector has found. It may run anywhere, so it takes no lock and adds nothing up.
        """
        self._past: dict[str, ClientFigures] = {}
        """The sums of those that are gone, by group."""
        self._lock = threading.Lock()

    def made(self, client: object, group: str) -> ClientFigures:
        """The figures for a new client, which count until the process ends."""
        figures = ClientFigures(group)
        self._live[id(figures)] = figures
        weakref.finalize(client, self._gone.append, id(figures)).atexit = False
        if len(self._gone) > GONE_MAX:
            with self._lock:
                self._add_up()
        return figures

    def _add_up(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                figures = self._live.pop(self._gone.popleft())
                self._past.setdefault(figures.group, ClientFigures(figures.group)).add(figures)

    def by_group(self) -> list[ClientFigures]:
        """The sums for each group. ``backlogs`` is that of the clients that live."""
        with self._lock:
            self._add_up()
            live = list(self._live.values())
            found: dict[str, ClientFigures] = {}
            for figures in [*self._past.values(), *live]:
                found.setdefault(figures.group, ClientFigures(figures.group)).add(figures)
        for group, total in found.items():
            members = [figures for figures in live if figures.group == group]
            total.backlogs = partial(_backlogs, members)
            total.outboxes = partial(_outboxes, members)
        return list(found.values())


def _backlogs(members: list[ClientFigures]) -> list[Backlog]:
    return [backlog for member in members for backlog in member.backlogs()]


def _outboxes(members: list[ClientFigures]) -> list[OutboxFigures]:
    return [outbox for member in members for outbox in member.outboxes()]


CLIENTS: Final = Registry()
"""Of this process, as a process has one ``/metrics``."""

os.register_at_fork(after_in_child=CLIENTS.forget)
