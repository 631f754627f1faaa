"""How long a local transaction may take in its own, living process.

A broker asks when the immunity of a half message is over. The process that runs the local transaction can give the best
answer without asking its database: as long as the commit has not begun, it can promise that there will be none. Were it
to answer UNKNOWN, the half message would be parked after some checks, and a later commit would come too late.

| state      | a check comes                                  | the commit begins           |
|------------|------------------------------------------------|-----------------------------|
| running    | before the time: UNKNOWN                       | committing                  |
|            | after it: given up, and the answer is ROLLBACK |                             |
| committing | UNKNOWN                                        |                             |
| given up   | ROLLBACK                                       | refused: TransactionClaimed |
"""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.client.listener import ListenerAnswer
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.clock import Clock

RUNNING: Final = ListenerAnswer(LocalTransactionState.UNKNOWN, remark="the local transaction is still running")
COMMITTING: Final = ListenerAnswer(
    LocalTransactionState.UNKNOWN, remark="the database is committing the local transaction"
)
GIVEN_UP: Final = ListenerAnswer(LocalTransactionState.ROLLBACK)


class _Decided(enum.Enum):
    COMMITTING = "committing"
    GIVEN_UP = "given up"


class LongestTransaction:
    """The time that one local transaction may take, and whether it was given up. Any thread may call any method."""

    __slots__ = ("_clock", "_decided", "_until")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + seconds
        self._decided: dict[str, _Decided] = {}
        """Written once, by ``setdefault``: one step, whatever other threads do and whichever signals come."""

    def asked(self) -> ListenerAnswer:
        """A broker asks about one of its half messages."""
        if not self._decided and self._clock.monotonic() < self._until:
            return RUNNING
        return GIVEN_UP if self._decided.setdefault("", _Decided.GIVEN_UP) is _Decided.GIVEN_UP else COMMITTING

    def commit(self) -> bool:
        """The commit begins, unless the transaction was given up: then False."""
        return self._decided.setdefault("", _Decided.COMMITTING) is _Decided.COMMITTING

    @property
    def given_up(self) -> bool:
        return self._decided.get("") is _Decided.GIVEN_UP
