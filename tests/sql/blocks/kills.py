"""Blocks whose process is killed with SIGKILL around the commit, and a sibling that answers for it.

The broker is a process of its own, and so is the sibling of each database. Afterwards, rows and messages are compared
from outside. Only steps that leave commit and rollback to the block are drawn: nobody can be told anything any more.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from gantrymq import Message, Producer, PullConsumer
from gantrymq.aio import Admin
from gantrymq.sql.rules import steps
from gantrymq.sql.transaction.enlistment import EnlistmentSteps
from tests.kill.server import Server
from tests.sql.blocks import grounds as settings
from tests.sql.blocks.generate import Generator
from tests.sql.blocks.grounds import Ground
from tests.sql.blocks.harness import Outcome, Violation
from tests.sql.blocks.judge import GOOD, Facts, judge
from tests.sql.blocks.plan import Block, Do, Step
from tests.sql.blocks.play import Hands, Player, Record
from tests.sql.blocks.sites import WAYS
from tests.sql.blocks.statements import STATEMENTS as ALL_STATEMENTS
from tests.sql.blocks.ways import service
from tests.sql.kill.service import fork, in_child, kill

TOPIC: Final = "blocks"
POINTS: Final = ("before_insert", "after_insert", "behind_commit", "first_end", "none")
AT_ONCE: Final = 3
SETTLE_S: Final = 60.0
EACH: Final = 1000
"""Numbers of units that one process may use."""
LEFT_OUT: Final = frozenset({Do.CALL, Do.SERVER, Do.DIE, Do.RAISE, Do.SEND, Do.FAIL})
STATEMENTS: Final = frozenset({"select", "schema", "schema_local", "attach", "temporary"})
LED_AWAY: Final = 0.3
"""How many of the blocks begin in another schema."""
FORMS_LEFT_OUT: Final = frozenset({"open", "other_loop"})


def quiet(block: Block) -> Block:
    """The block without what ends its transaction in another way."""
    own = block.setting.startswith("memory") or block.setting.endswith("autocommit")  # each row commits by itself
    return Block(block.way, block.database, "default" if own else block.setting, block.form, _quiet(block.steps))


def _quiet(given: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(
        Step(step.do, step.kind, step.caught, "" if step.ends == "myisam" else step.ends, _quiet(step.inner))
        for step in given
        if step.do not in LEFT_OUT and (step.do is not Do.STATEMENT or step.kind in STATEMENTS)
    )


class Killer:
    """Kills this process at a step of an enlistment."""

    def __init__(self, point: str) -> None:
        self._point = point

    def reach(self, point: str) -> None:
        if point == self._point:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Put hooks around the steps, in a process that will not live long."""
        carry_out = EnlistmentSteps._carry_out

        async def watched(one: EnlistmentSteps, step: steps.Step, *more: Any) -> Any:
            if isinstance(step, steps.InsertOutcome):
                self.reach("before_insert")
            if isinstance(step, steps.EndHalves):
                self.reach("behind_commit")
            got = await carry_out(one, step, *more)
            if isinstance(step, steps.InsertOutcome):
                self.reach("after_insert")
            if isinstance(step, steps.EndHalves):
                self.reach("first_end")
            return got

        EnlistmentSteps._carry_out = watched  # type: ignore[method-assign, assignment]


def serve(ground: Ground, block: Block, point: str, first: int) -> None:
    """In a child: play the block, and die at the point."""
    Player.numbers = itertools.count(first)
    site = WAYS[block.way](ground, block.setting)
    Killer(point).watch()
    record = Record(TOPIC)

    async def body(hands: Hands) -> None:
        record.attempt += 1
        await Player(hands, ground, record).steps(block.steps)

    site.run(block.form, body)
    site.end()


def answer(ground: Ground) -> None:
    """In a child: answer check-backs of one database until killed."""
    service(ground, ground.place.connect, topics=[TOPIC]).start()
    while True:
        signal.pause()


class Kills:
    """One broker, one sibling for each database, and processes that die."""

    def __init__(self, grounds: dict[str, Ground], root: Path) -> None:
        self._grounds = grounds
        self._log = root / "children.log"
        self._server = Server(root / "broker", "ASYNC_FLUSH")
        self._children: dict[int, tuple[Block, str]] = {}
        self._died: Counter[str] = Counter()
        self._played: list[tuple[Block, str, int]] = []

    def run(
        self, combinations: Sequence[tuple[str, str]], count: int, seed: int,
        say: Callable[[int], None] = lambda done: None,
    ) -> Outcome:  # fmt: skip
        """Kill ``count`` processes, each in a block of its own."""
        outcome, begun, siblings = Outcome(), time.monotonic(), list[int]()
        before = settings.SETTINGS["name_servers"]
        settings.SETTINGS["name_servers"] = self._server.name_servers
        try:
            self._server.start()
            in_child(self._prepare, self._log)
            siblings = [fork(lambda ground=ground: answer(ground), self._log) for ground in self._grounds.values()]  # type: ignore[misc]
            for number in range(count):
                way, kind = combinations[number % len(combinations)]
                rng = Random(f"{seed}/kill/{number}")
                block = quiet(_usable(Generator(rng, WAYS[way], kind)))
                if rng.random() < LED_AWAY:
                    away = Step(Do.STATEMENT, rng.choice(sorted(STATEMENTS & set(ALL_STATEMENTS[kind]) - {"select"})))
                    block = replace(block, steps=(away, *block.steps))
                point = POINTS[number // len(combinations) % len(POINTS)]
                self._begin(block, point, 1 + number * EACH)
                outcome.blocks[(way, kind)] += 1
                say(number + 1)
            while self._children:
                self._wait()
            outcome.killed = self._died
            self._judge(outcome)
        finally:
            for child in (*self._children, *siblings):
                kill(child)
            self._server.kill()
            settings.SETTINGS["name_servers"] = before
        outcome.seconds = time.monotonic() - begun
        return outcome

    def _prepare(self) -> None:
        with Producer("prepare", name_servers=self._server.name_servers) as producer:
            producer.send(Message(TOPIC, "0"))

    def _begin(self, block: Block, point: str, first: int) -> None:
        while len(self._children) >= AT_ONCE:
            self._wait()
        ground = self._grounds[block.database]
        ground.close()
        child = fork(lambda: serve(ground, block, point, first), self._log)
        self._children[child] = (block, point)
        self._played.append((block, point, first))

    def _wait(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            for child in list(self._children):
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    _, point = self._children.pop(child)
                    self._died[point] += os.WIFSIGNALED(status)
                    return
            time.sleep(0.002)
        child, (block, _) = self._children.popitem()
        kill(child)
        raise RuntimeError("a block hangs: " + "\n".join(block.lines()))

    def _judge(self, outcome: Outcome) -> None:
        still_open = not self._settled()
        delivered = self._delivered()
        rows = {kind: ground.rows() for kind, ground in self._grounds.items()}
        for block, point, first in self._played:
            for number in range(first, first + EACH):
                row = number in rows[block.database]
                if not row and not delivered[number]:
                    continue
                verdict = judge(
                    Facts(
                        row=row,
                        delivered=delivered[number],
                        inserted=True,
                        sent=True,
                        undone=True,
                        committed="",
                        raised=False,
                        says_so=False,
                        open=still_open and not delivered[number],
                    )
                )
                outcome.units[verdict.name] += 1
                if verdict not in GOOD:
                    outcome.violations.append(Violation(block, verdict.name, f"killed at {point}; unit {number}"))

    def _settled(self) -> bool:
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if not asyncio.run(_undecided(self._server.name_servers)):
                return True
            time.sleep(0.1)
        return False

    def _delivered(self) -> Counter[int]:
        found: Counter[int] = Counter()
        with PullConsumer(name_servers=self._server.name_servers) as consumer:
            for queue in consumer.queues(TOPIC):
                offset, end = consumer.min_offset(queue), consumer.max_offset(queue)
                while offset < end:
                    pulled = consumer.pull(queue, offset)
                    found.update(int(message.body) for message in pulled.messages)
                    offset = pulled.next_offset
        return found


def _usable(generator: Generator) -> Block:
    while True:
        block = generator.block()
        if block.form not in FORMS_LEFT_OUT:
            return block


async def _undecided(name_servers: str) -> int:
    async with Admin(name_servers) as admin:
        return len(await admin.transactions.undecided())
