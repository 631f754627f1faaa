"""Plays blocks on real databases against a broker in this process, and judges every unit from outside."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Self

from gantrymq.errors import ConfigError
from gantrymq.message import properties
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.testing import LocalCluster
from tests.sql.blocks.generate import Generator
from tests.sql.blocks.grounds import Ground
from tests.sql.blocks.judge import GOOD, Facts, Verdict, is_crash, judge
from tests.sql.blocks.plan import Block, Do, walk
from tests.sql.blocks.play import Hands, Player, Record, Unit, says_so
from tests.sql.blocks.sites import WAYS
from tests.sql.blocks.ways import ELSEWHERE, Site
from tests.sql.blocks.ways_async import loop

BATCH: Final = 25
ROUND: Final = 3000
"""Blocks with one broker, which keeps everything in memory."""
SITES: Final = 16
"""How many are kept open."""
SLOW_S: Final = 1.0
SETTLE_S: Final = 30.0
HANGS_S: Final = 60.0
"""A block that takes longer ends the program with the stack of each thread."""
BROKER: Final = {"transactionTimeOut": 1000, "transactionCheckInterval": 1000}
STRANGE_FOR: Final = 3
"""Blocks behind one on another event loop that get the same pool: they must not lose anything. Then it is thrown away,
because SQLAlchemy's connections of the other loop make every block fail."""
LEFT_DIRTY: Final = frozenset({"autocommit", "driver_autocommit", "select_db", "invalidate"})


@dataclass(slots=True)
class Violation:
    """A block that broke a rule."""

    block: Block
    verdict: str
    what: str

    def text(self) -> str:
        return "\n".join([f"{self.verdict}: {self.what}", *(f"  {line}" for line in self.block.lines())])


@dataclass(slots=True)
class Outcome:
    """What a run found."""

    blocks: Counter[tuple[str, str]] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    """How many had each verdict."""
    raised: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Settings under which Transactions could not be made."""
    """Blocks that ended with an error."""
    killed: Counter[str] = field(default_factory=Counter)
    """Processes that died at each point (``kills``)."""
    violations: list[Violation] = field(default_factory=list)
    slow: list[tuple[float, Block]] = field(default_factory=list)
    """Blocks that took more than ``SLOW_S``."""
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        return sum(self.blocks.values())


class Harness:
    """One broker at a time, and the sites on it."""

    def __init__(self, grounds: dict[str, Ground]) -> None:
        self._grounds = grounds
        self._sites: dict[tuple[str, str, str], Site] = {}
        self.settle_s = SETTLE_S
        self._topics = 0
        self.times: dict[tuple[str, str], float] = defaultdict(float)
        self._warnings = _Warnings()

    def __enter__(self) -> Self:
        self._cluster = LocalCluster(broker=BROKER).start()
        self._played = 0
        logging.getLogger("gantrymq").addHandler(self._warnings)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("gantrymq").removeHandler(self._warnings)
        self._end_sites()
        self._cluster.close()

    def _end_sites(self) -> None:
        for key in list(self._sites):
            self._sites.pop(key).end()

    def _refresh(self) -> None:
        """A new broker, and empty tables."""
        self._end_sites()
        self._cluster.close()
        for ground in self._grounds.values():
            ground.empty()
        self._cluster = LocalCluster(broker=BROKER).start()
        self._played = 0

    # Many blocks.

    def run(
        self, combinations: Sequence[tuple[str, str]], count: int, seed: int, *, seconds: float | None = None,
        say: Callable[[Outcome], None] = lambda outcome: None,
    ) -> Outcome:  # fmt: skip
        """Play ``count`` blocks, as many of each combination; or until so many ``seconds`` are over."""
        outcome, begun, batch = Outcome(), time.monotonic(), 0
        while outcome.tried < count and (seconds is None or time.monotonic() - begun < seconds):
            for way, kind in combinations:
                wanted = min(BATCH, count - outcome.tried)
                if wanted <= 0:
                    break
                maker = Generator(Random(f"{seed}/{way}/{kind}/{batch}"), WAYS[way], kind)
                self.play([maker.block() for _ in range(wanted)], outcome)
                outcome.seconds = time.monotonic() - begun
                say(outcome)
            batch += 1
        return outcome

    def play(self, blocks: Sequence[Block], outcome: Outcome) -> Outcome:
        """Play blocks of one database, one after the other, then judge all of them."""
        if self._played + len(blocks) > ROUND:
            self._refresh()
        self._played += len(blocks)
        self._topics += 1
        topic = f"blocks-{self._topics}"
        self._cluster.create_topic(topic, queues=1)
        played = []
        for block in blocks:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            self.now, begun = block, time.monotonic()
            played.append((block, self._play(block, topic, outcome)))
            self.times[(block.way, block.database)] += time.monotonic() - begun
            if time.monotonic() - begun > SLOW_S:
                outcome.slow.append((time.monotonic() - begun, block))
            faulthandler.cancel_dump_traceback_later()
        still_open = self._settled(topic)
        found: dict[int, list[str]] = {}
        for message in self._cluster.messages(topic):
            mark = message.properties.get(properties.LOCAL_TRANSACTION, "")
            found.setdefault(int(message.body), []).append(mark.partition(" ")[0])
        self._judge(played, found, still_open, outcome)
        return outcome

    def _settled(self, topic: str) -> bool:
        """Whether a half message stays open for ever."""

        def is_open() -> bool:
            return any(half.topic == topic for half in self._cluster.open_transactions())

        deadline = time.monotonic() + self.settle_s
        while is_open():
            if time.monotonic() > deadline:
                return True
            loop().run_until_complete(asyncio.sleep(0.01))  # where asynchronous ways in answer check-backs
        return False

    def _site(self, block: Block) -> Site:
        key = (block.way, block.database, block.setting)
        found = self._sites.pop(key, None)
        if found is None:
            if block.way == "django":  # a process has one project
                for other in [other for other in self._sites if other[0] == "django"]:
                    self._sites.pop(other).end()
            while len(self._sites) >= SITES:
                self._sites.pop(next(iter(self._sites))).end()
            found = WAYS[block.way](self._grounds[block.database], block.setting)
        self._sites[key] = found
        return found

    def _play(self, block: Block, topic: str, outcome: Outcome) -> _Played:
        record = Record(topic, warnings=self._warnings.begin())
        try:
            site = self._site(block)
        except ConfigError as refused:  # by name, before anything was done
            outcome.blocks[(block.way, block.database)] += 1
            outcome.refused[block.setting] += 1
            return _Played(record, refused)

        async def body(hands: Hands) -> None:
            if record.attempt:  # the one before was not committed
                record.errors.setdefault(record.attempt, RuntimeError("tried again"))
            record.attempt += 1
            try:
                await Player(hands, site.ground, record).steps(block.steps)
            except BaseException as error:
                record.errors[record.attempt] = error
                raise

        error: BaseException | None = None
        try:
            site.run(block.form, body)
        except Exception as raised:
            error = raised
        record.errors[record.attempt] = error
        if block.form == "open" or (
            block.way == "django" and block.setting == "autocommit_off" and block.form != "manual"
        ):
            never_committed(record)  # with AUTOCOMMIT False, atomic() is a savepoint, and nobody commits
        outcome.blocks[(block.way, block.database)] += 1
        outcome.raised += error is not None
        played = _Played(record, error, elsewhere=site.strange_for > 0 and isinstance(error, RuntimeError))
        site.strange_for = STRANGE_FOR if block.form in ELSEWHERE else site.strange_for - 1
        record.dirty |= site.strange_for == 0
        try:
            played.rows, played.outcomes = site.rows(), site.outcomes()
        except Exception:  # the block has closed the connection that a database in memory lives in
            played.record.units.clear()
            record.dirty = True
        record.dirty |= isinstance(error, TimeoutError)  # of a block that hung
        if record.dirty or block.setting in ("fresh", "memory_fresh") or _leaves_dirty(block):
            self._sites.pop((block.way, block.database, block.setting)).end()
        return played

    # The judgement.

    def _judge(
        self, played: list[tuple[Block, _Played]], found: dict[int, list[str]], still_open: bool, outcome: Outcome
    ) -> None:
        ground = self._grounds[played[0][0].database]
        rows, outcomes = ground.rows(), ground.outcomes()
        for block, one in played:
            there = rows if one.rows is None else one.rows | rows  # a database in memory may have attached a file
            known = outcomes if one.outcomes is None else one.outcomes
            if one.error is not None and is_crash(one.error) and not one.elsewhere:
                outcome.violations.append(Violation(block, Verdict.CRASHED.name, repr(one.error)[:300]))
            for unit in one.record.units:
                marks = found.get(unit.number, [])
                facts = one.facts(block, unit, there, marks, known, still_open)
                verdict = judge(facts)
                outcome.units[verdict.name] += 1
                if verdict not in GOOD:
                    error = one.record.errors.get(unit.attempt)
                    what = f"unit {unit.number} of attempt {unit.attempt}, which ended with {error!r}; {facts}"[:900]
                    outcome.violations.append(Violation(block, verdict.name, what))


@dataclass(slots=True)
class _Played:
    record: Record
    error: BaseException | None
    rows: set[int] | None = None
    outcomes: dict[str, int] | None = None
    elsewhere: bool = False
    """What it raised comes of a block on another event loop before: the pool of the program's engine has a connection
    of that loop."""

    def facts(
        self, block: Block, unit: Unit, rows: set[int], marks: list[str], outcomes: dict[str, int], still_open: bool
    ) -> Facts:
        ended = self.record.errors.get(unit.attempt)
        theirs = block.form not in WAYS[block.way].ours
        return Facts(
            row=unit.number in rows if unit.has_row else None, delivered=len(marks), inserted=unit.inserted,
            sent=unit.sent, undone=unit.undone, committed=unit.committed, raised=ended is not None,
            says_so=says_so(ended), warned=bool(self.record.warnings), told=unit.told,
            none_of_ours=theirs and unit.attempt not in self.record.asked,
            lost_commit=theirs and ended is not None and read_failure(ended) is Failure.DISCONNECTED,
            open=still_open and unit.sent and not marks,
            answerable=all(outcomes.get(mark) == 1 for mark in marks), transactional=unit.transactional,
        )  # fmt: skip


def never_committed(record: Record) -> None:
    """The program closes its session without a commit: its rows go, and the messages about them. Only a message that
    was sent alone behind a commit must not go without a word: its program may believe that the commit has sent it."""
    rows = not (record.commits and any(unit.committed for unit in record.units))
    for unit in reversed(record.units):
        rows = rows or unit.has_row
        if rows and not (unit.committed and record.commits):
            unit.undone = True


def _leaves_dirty(block: Block) -> bool:
    return any(step.do is Do.CALL and step.kind in LEFT_DIRTY for step in walk(block.steps))


class _Warnings(logging.Handler):
    """What our library warns of, for the block that runs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._now: list[str] = []

    def begin(self) -> list[str]:
        self._now = []
        return self._now

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "dropped" in text or "rolled back" in text:
            self._now.append(text)


def batches(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks of one way and database together."""
    groups: dict[tuple[str, str], list[Block]] = {}
    for block in blocks:
        groups.setdefault((block.way, block.database), []).append(block)
    yield from groups.values()
