"""All crashes of the workload: for each disk operation every outcome that is tried, opened again and judged."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial

from gantrymq.simulation.crash.journal import Cut, Image, JournalDisk
from gantrymq.simulation.crash.ledger import Expected, Fact, expected_at
from gantrymq.simulation.crash.outcomes import IN_ORDER, TORN, Choice, Effort, Space, Versions
from gantrymq.simulation.crash.rules import Breach, judge
from gantrymq.simulation.crash.scenario import LOG, WHOLE, LogPositions, Played, play
from gantrymq.simulation.crash.station import Station
from gantrymq.simulation.crash.view import View, reopen

SYNC_FLUSH = "SYNC_FLUSH"
VIEWS_KEPT = 3000
"""Disks that come again are not opened again: what a broker finds depends on the disk alone."""
ORDINARY = Effort()
AGAIN = Effort(all_up_to=16, kinds=(IN_ORDER, TORN), sampled=4)
"""Of a start that is cut off, too."""


KILL, KILLED = "kill", -1
"""In the place of an outcome: not the power was cut, only the process was killed; the power is cut in the next one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which crashes are tried."""

    flush: str = SYNC_FLUSH
    chapters: tuple[str, ...] = WHOLE
    sector_bytes: int = 512
    """What a disk writes whole or not at all."""
    effort: Effort = ORDINARY
    again_every: int = 1000
    """In one of so many outcomes the power is cut once more, before each operation of the start behind it and of what
    clients do then; 0: never."""
    kill_every: int = 5
    """Behind one of so many writes to the log the process is killed, and the power is cut in the next one; 0: never."""


@dataclass(frozen=True, slots=True)
class Point:
    """One crash: before a disk operation, with an outcome; perhaps a second one in the start behind it."""

    operation: int
    outcome: int
    again: tuple[int, int] | None = None

    def __str__(self) -> str:
        outcome = KILL if self.outcome == KILLED else self.outcome
        return ":".join(map(str, (self.operation, outcome, *(self.again or ()))))

    @classmethod
    def parse(cls, text: str) -> Point:
        """Raises ValueError when it is none."""
        first, *rest = text.split(":")
        if len(rest) not in (1, 3) or rest == [KILL]:
            raise ValueError(f"{text!r} has not two or four parts")
        outcome = KILLED if rest[0] == KILL else int(rest[0])
        return cls(int(first), outcome, (int(rest[1]), int(rest[2])) if len(rest) > 1 else None)


@dataclass(frozen=True, slots=True)
class Failure:
    """A crash behind which something does not hold."""

    point: Point
    when: str
    """The last operation before the cut, and the kind of outcome."""
    breaches: tuple[Breach, ...]


@dataclass(slots=True)
class Figures:
    """What was tried and found."""

    operations: int = 0
    complete: int = 0
    """Operations of which every possible outcome was tried."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Outcomes by why they were tried."""
    opened: int = 0
    """Disks that differ from each other, as far as is remembered: a broker was started on each."""
    starts_cut: int = 0
    """Starts in which the power was cut again."""
    again_operations: int = 0
    again: int = 0
    """Outcomes of those second cuts."""
    failures: list[Failure] = field(default_factory=list)

    @property
    def points(self) -> int:
        return sum(self.kinds.values()) + self.again

    def add(self, other: Figures) -> None:
        for name in ("operations", "complete", "opened", "starts_cut", "again_operations", "again"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.kinds.update(other.kinds)
        self.failures += other.failures


class Enumeration:
    """One plan: its workload is played when it is first needed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._versions = Versions(plan.sector_bytes)
        self._views: OrderedDict[tuple[object, ...], View] = OrderedDict()
        self._opened = 0

    @cached_property
    def played(self) -> Played:
        return play(self.plan.flush, self.plan.chapters)

    def cut(self, number: int) -> Figures:
        """Every outcome that is tried of the cut before operation ``number``."""
        cut = self.played.cuts[number]
        space = Space(cut, self._versions)
        expected = expected_at(self.played.facts, number)
        figures, opened = Figures(operations=1), self._opened
        choices = space.choices(self.plan.effort)
        figures.complete = int(space.combinations == len(choices))
        figures.kinds.update(choices.values())
        for outcome, (choice, kind) in enumerate(choices.items()):
            image = space.image(choice)
            breaches = self._judge(image, expected, self.played.positions[number])
            if breaches:
                figures.failures.append(Failure(Point(number, outcome), f"{cut.done}; {kind}", breaches))
            elif self._is_cut_again(number, outcome):
                self._again(self._disk(space, choice), Point(number, outcome), expected, figures)
        if number in self._killed:
            self._again(self._disk(space, None), Point(number, KILLED), expected, figures)
        figures.opened = self._opened - opened
        return figures

    def point(self, point: Point) -> Failure | None:
        """One crash alone; None when all holds. Raises LookupError when there is no such crash."""
        number = point.operation
        space = Space(self.played.cuts[number], self._versions)
        expected = expected_at(self.played.facts, number)
        choice, kind = list(space.choices(self.plan.effort).items())[max(point.outcome, 0)]
        if point.again is None:
            breaches = self._judge(space.image(choice), expected, self.played.positions[number])
            return Failure(point, f"{space.cut.done}; {kind}", breaches) if breaches else None
        figures = Figures()
        disk = self._disk(space, None if point.outcome == KILLED else choice)
        self._again(disk, point, expected, figures, point.again)
        if not figures.again:
            raise IndexError(f"there is no second crash {point}")
        return figures.failures[0] if figures.failures else None

    @cached_property
    def _killed(self) -> frozenset[int]:
        writes = [cut.number for cut in self.played.cuts if cut.done.startswith("write") and LOG in cut.done]
        return frozenset(writes[:: self.plan.kill_every] if self.plan.kill_every else ())

    def _is_cut_again(self, number: int, outcome: int) -> bool:
        every = self.plan.again_every
        return every > 0 and (number * 7919 + outcome * 104729) % every == 0

    def _disk(self, space: Space, choice: Choice | None) -> Callable[[Callable[[Cut], None]], JournalDisk]:
        """Makes the disk of an outcome; None: as a killed process left it."""
        if choice is None:
            return partial(JournalDisk, killed=space.cut)
        return partial(JournalDisk, image=space.image(choice))

    def _again(
        self, make: Callable[[Callable[[Cut], None]], JournalDisk], point: Point, expected: Expected, figures: Figures,
        only: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Cut the power before every operation of the next start, and of what clients do behind it."""
        cuts: list[Cut] = []
        positions: list[LogPositions] = []
        facts: list[Fact] = []
        stations: list[Station] = []
        before = self.played.positions[point.operation]

        def cut_here(cut: Cut) -> None:
            cuts.append(cut)
            positions.append(before.later(stations[0]))

        def note(kind: str, name: str = "", place: tuple[object, ...] = (), value: str = "") -> None:
            facts.append(Fact(disk.operations, kind, name, place, value))

        disk = make(cut_here)
        first = reopen(disk, self.played, note, stations.append)
        cut_here(disk.freeze())
        figures.starts_cut += 1
        versions = Versions(self.plan.sector_bytes)
        for cut in cuts if only is None else cuts[only[0] : only[0] + 1]:
            figures.again_operations += 1
            space = Space(cut, versions)
            known = expected_at(facts, cut.number, expected)
            for outcome, (choice, kind) in enumerate(space.choices(AGAIN).items()):
                if only is not None and outcome != only[1]:
                    continue
                figures.again += 1
                breaches = self._judge(space.image(choice), known, positions[cut.number], first.end)
                if breaches:
                    again = Point(point.operation, point.outcome, (cut.number, outcome))
                    figures.failures.append(Failure(again, f"{cut.done}, behind a first crash; {kind}", breaches))

    def _judge(
        self, image: Image, expected: Expected, positions: LogPositions, written: int = 1 << 62
    ) -> tuple[Breach, ...]:
        sync = self.plan.flush == SYNC_FLUSH
        return tuple(judge(self._view(image), expected, positions, sync=sync, written=written))

    def _view(self, image: Image) -> View:
        view = self._views.get(image.key)
        if view is None:
            self._opened += 1
            view = self._views[image.key] = reopen(JournalDisk(image=image), self.played)
            if len(self._views) > VIEWS_KEPT:
                self._views.popitem(last=False)
        return view

    def choices(self, number: int) -> dict[Choice, str]:
        """The outcomes tried of one cut; for whoever wants to look."""
        return Space(self.played.cuts[number], self._versions).choices(self.plan.effort)


@lru_cache(maxsize=2)
def enumeration(plan: Plan) -> Enumeration:
    """The plan's, made once in a process."""
    return Enumeration(plan)


def try_cuts(plan: Plan, numbers: range) -> Figures:
    """Some of the cuts of a plan; the work of one process."""
    figures = Figures()
    for number in numbers:
        figures.add(enumeration(plan).cut(number))
    return figures


def pieces(count: int, size: int = 8) -> Iterator[range]:
    """``count`` cuts in pieces of neighbours, which have many disks in common."""
    for first in range(0, count, size):
        yield range(first, min(first + size, count))


def silence() -> None:
    """The product's own log would tell of every crash."""
    logging.getLogger("gantrymq").setLevel(logging.CRITICAL + 1)
