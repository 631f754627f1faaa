"""Blocks by chance. The same Random makes the same blocks. Pure."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.sql.blocks.plan import Block, Do, Step
from tests.sql.blocks.statements import FAILURES, STATEMENTS
from tests.sql.blocks.ways import Site

DEEPEST: Final = 3
PAYS: Final = 5
"""Of ten steps, how many are units."""
USUAL: Final = 0.5
"""How many of the blocks have the usual setting."""
SERVER: Final = {"mariadb": ("deadlock", "lock_timeout"), "sqlite": ("or_rollback", "trigger"), "postgresql": ()}
DEATHS: Final = {
    "mariadb": ("terminated", "socket"), "sqlite": (), "postgresql": ("terminated", "socket"),
}  # fmt: skip


class Generator:
    """Makes the blocks of one way in on one database."""

    def __init__(self, rng: Random, kind: type[Site], database: str) -> None:
        self._rng = rng
        self._kind = kind
        self._database = database

    def block(self) -> Block:
        rng, kind = self._rng, self._kind
        settings = kind.settings[self._database]
        setting = settings[0] if rng.random() < USUAL else rng.choice(settings)
        form = rng.choice(kind.forms)
        steps = [self._step(0) for _ in range(rng.randint(1, 4))]
        if not any(step.do is Do.PAY for step in steps):
            steps.append(self._pay(0))
        if setting == "proxy" and rng.random() < 0.7:
            steps.append(Step(Do.DIE, rng.choice(("cut_before", "cut_after"))))
        if form == "open":
            steps.append(Step(Do.CALL, "commit"))
            if rng.random() < 0.5:
                steps.append(rng.choice((self._pay(DEEPEST), Step(Do.SEND))))
        if form == "run" and rng.random() < 0.6:
            steps.append(Step(Do.RAISE, "again"))
        elif rng.random() < 0.25:
            steps.append(Step(Do.RAISE, "error"))
        return Block(kind.way, self._database, setting, form, tuple(steps))

    def _step(self, depth: int) -> Step:
        rng = self._rng
        if rng.randrange(10) < PAYS:
            return self._pay(depth)
        return rng.choice((
            self._savepoint, self._savepoint, self._statement, self._statement, self._call, self._fail, self._server,
            self._die,
        ))(depth)  # fmt: skip

    def _inner(self, depth: int, most: int) -> tuple[Step, ...]:
        if depth >= DEEPEST:
            return ()
        return tuple(self._step(depth + 1) for _ in range(self._rng.randint(0, most)))

    def _pay(self, depth: int) -> Step:
        rng = self._rng
        inner = self._inner(depth + 1, 1) if rng.random() < 0.3 else ()
        myisam = "myisam" if self._database == "mariadb" and rng.random() < 0.03 else ""
        return Step(Do.PAY, rng.choice(("row_first", "message_first")), ends=myisam, inner=inner)

    def _savepoint(self, depth: int) -> Step:
        rng = self._rng
        if depth >= DEEPEST:
            return self._pay(depth)
        kind = rng.choice(self._kind.savepoints[self._database])
        ends = rng.choice(("release", "error", "error", "rollback"))
        inner = self._inner(depth, 2) or (self._pay(depth + 1),)
        return Step(Do.SAVEPOINT, kind, caught=rng.random() < 0.85, ends=ends, inner=inner)

    def _statement(self, depth: int) -> Step:
        chosen = self._rng.choice(sorted(STATEMENTS[self._database]))
        return Step(Do.STATEMENT, chosen, caught=self._rng.random() < 0.4)

    def _call(self, depth: int) -> Step:
        return Step(Do.CALL, self._rng.choice(self._kind.calls[self._database]), caught=self._rng.random() < 0.5)

    def _fail(self, depth: int) -> Step:
        return Step(Do.FAIL, self._rng.choice(sorted(FAILURES)), caught=self._rng.random() < 0.8)

    def _server(self, depth: int) -> Step:
        kinds = SERVER[self._database]
        if not kinds:
            return self._fail(depth)
        return Step(Do.SERVER, self._rng.choice(kinds), caught=self._rng.random() < 0.75)

    def _die(self, depth: int) -> Step:
        kinds = DEATHS[self._database]
        if not kinds or self._rng.random() < 0.5:  # it is slow
            return self._pay(depth)
        return Step(Do.DIE, self._rng.choice(kinds))
