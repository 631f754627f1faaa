"""What replication does at the moment, for those who ask: tools, metrics, the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gantrymq.broker.refusal import Refused
from gantrymq.broker.replication.port import Port
from gantrymq.broker.replication.replica import Follower
from gantrymq.message.replication import ElectionState, ReplicationState
from gantrymq.store.message_store import MessageStore

HandOver: TypeAlias = Callable[[int, Callable[[Refused | None], None]], None]
"""See ``Leadership.hand_over``."""


class Watched:
    """The parts of one role that copy the log, as soon as there are any."""

    def __init__(
        self, store: MessageStore, is_primary: bool, election: Callable[[], ElectionState | None] = lambda: None,
        hand_over: HandOver | None = None, told: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.told = told
        """Makes this broker read who is primary; None: there is no such group."""
        self.hand_over = hand_over
        """Lets the member with this disk become primary; None: there is no such group."""
        self.election = election
        """Who is primary of a broker group that elects it; None: the settings say who is."""
        self._store = store
        self._is_primary = is_primary
        self.port: Port | None = None
        self.follower: Follower | None = None

    def state(self) -> ReplicationState:
        return ReplicationState(
            self._is_primary,
            self._store.written,
            () if self.port is None else self.port.states(),
            None if self.follower is None else self.follower.following(),
            self._is_primary and not self._store.follows,
            self.election(),
        )
