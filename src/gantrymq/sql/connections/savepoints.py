"""Which messages a rollback to a savepoint takes away, on a connection of a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gantrymq.errors import TransactionBroken
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import UNSEEN_SAVEPOINT


class WatchedSavepoints:
    """Is told of the statements of one block. The level of a message is ``level``, when it is sent."""

    def __init__(self, drop: Callable[[Callable[[object], bool]], None]) -> None:
        """``drop``: drops the messages whose level belongs to what was rolled back."""
        self._drop = drop
        self._savepoints = proof.Savepoints()
        self._blocks: list[str] = []
        self._made = 0
        self._doubtful = False

    @property
    def level(self) -> Sequence[int]:
        return self._savepoints.level

    def executes(self, text: str) -> None:
        """A statement of our own comes."""
        self.statement(text)

    async def settled(self) -> None:
        """All that was executed is known."""

    def check(self) -> None:
        """Raises TransactionBroken when it is not known what a rollback has taken away."""
        if self._doubtful:
            raise TransactionBroken(UNSEEN_SAVEPOINT)

    def statement(self, text: str) -> None:
        found = proof.command_of(text)
        if found is None:
            return
        command, name = found
        if command == "begin":
            self._savepoints.begin(name)
        elif command == "release":
            self._savepoints.release(name)
        else:
            self._roll_back(name)

    def block(self, begins: bool, kept: bool = True) -> None:
        if begins:
            self._made += 1
            self._blocks.append(f"block {self._made}")
            self._savepoints.begin(self._blocks[-1])
            return
        name = self._blocks.pop()
        if not kept:
            self._roll_back(name)
        self._savepoints.release(name)

    def _roll_back(self, name: str) -> None:
        number = self._savepoints.roll_back(name)
        if number is None:
            self._doubtful = True
        else:
            self._drop(lambda level: isinstance(level, tuple | list) and number in level)


class LaterSavepoints(WatchedSavepoints):
    """Is told of each statement one turn of the event loop behind it. All that depends on them takes the same queue."""

    def __init__(self, drop: Callable[[Callable[[object], bool]], None]) -> None:
        super().__init__(drop)
        self._loop = asyncio.get_running_loop()

    @property
    def level(self) -> Sequence[int]:
        """Empty at first: its numbers come when the statements before are known."""
        numbers: list[int] = []
        self._loop.call_soon(lambda: numbers.extend(self._savepoints.level))
        return numbers

    def executes(self, text: str) -> None:
        self._loop.call_soon(lambda: self.statement(text))

    async def settled(self) -> None:
        done = self._loop.create_future()
        self._loop.call_soon(done.set_result, None)
        await done
