"""An operator names the next primary of a broker group that elects it, or a controller says that it has elected one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gantrymq.broker.refusal import Refusal, Refused

HandOver: TypeAlias = Callable[[int, Callable[[Refused | None], None]], None]
"""See ``Leadership.hand_over``."""


class Handovers:
    """Of one broker. ``hand_over``, ``told``: see ``Leadership``; None: it belongs to no such group."""

    def __init__(self, hand_over: HandOver | None, told: Callable[[], None] | None) -> None:
        self._hand_over = hand_over
        self._told = told

    def elect(self, disk: int, done: Callable[[Refused | None], None]) -> None:
        """Let the member with this disk take the place of this primary. ``done``: called with None when it is decided,
        or with the reason why it was refused. Raises Refused when there is no group."""
        if self._hand_over is None:
            raise Refused(
                Refusal.NOT_PERMITTED,
                "this broker has no etcdAddr: its settings say who is primary. `gantry cluster failover` changes them",
            )
        self._hand_over(disk, done)

    def told(self) -> None:
        """Somebody says that there may be another primary. This broker looks for itself; the word alone counts for
        nothing. Raises Refused when there is no group."""
        if self._told is None:
            raise Refused(Refusal.NOT_PERMITTED, "this broker belongs to no group that elects its primary")
        self._told()
