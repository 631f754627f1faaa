"""What a restarted broker contains: read record by record from its log, and asked from it by requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gantrymq.broker.broker import Broker
from gantrymq.errors import GantryError, InvariantViolated
from gantrymq.message import flags
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP, PARKED, SCHEDULE
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.simulation.crash.client import OK, READERS, Caller, Note, name_in
from gantrymq.simulation.crash.ledger import COMMIT, PARK, ROLLBACK, HalfPlace, Place
from gantrymq.simulation.crash.scenario import LOG, OTHER, TOPIC, Played
from gantrymq.simulation.crash.station import Station
from gantrymq.simulation.stores import queue_problems
from gantrymq.simulation.world.disk import PowerCut, SimDisk
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import TIGHT_LOOK_SECONDS
from gantrymq.transactions.records.half import parse_op
from gantrymq.transactions.table.decisions import Decision

LATE_MS = 60_000
"""How long after the end of the workload the broker is started again."""
OPEN = "open"
SETTLE_TRIES = 100
ASKED = 2
"""Halves that are asked about by requests: the newest decided ones, and the newest open ones."""
_REFUSED = ResponseCode.ILLEGAL_OPERATION
_BY_ANSWERS: dict[tuple[int, int], str] = {(OK, _REFUSED): COMMIT, (_REFUSED, OK): ROLLBACK, (_REFUSED, _REFUSED): PARK}
"""What a decided half is by the answers to a commit and to a rollback that come again."""
_NAMES = {Decision.NONE: OPEN, Decision.COMMITTED: COMMIT, Decision.ROLLED_BACK: ROLLBACK, Decision.PARKED: PARK}
_MESSAGES = {OPEN: (0, 0), COMMIT: (1, 0), ROLLBACK: (0, 0), PARK: (0, 1)}
"""(final, parked) messages that belong to each state."""


@dataclass(slots=True)
class HalfView:
    """One half message, and all that refers to it."""

    name: str
    place: HalfPlace
    in_table: bool = False
    ops: list[str] = field(default_factory=list)
    finals: int = 0
    parked: int = 0
    known_as: str = ""
    """What the broker knows it as, without a look at its records."""
    answers: str = ""
    """What it is by the answers to ends that come again; "" when it was not asked."""
    ended_on_a_full_disk: bool = False
    """Open at the start, and ended before there was room for anything else."""

    @property
    def state(self) -> str:
        """What it is, by its op message."""
        return self.ops[0] if self.ops else OPEN

    def contradictions(self) -> Iterator[str]:
        """Where log, table and answers do not agree."""
        state = self.state
        if len(self.ops) > 1:
            yield f"it has {len(self.ops)} op messages"
        if (self.finals, self.parked) != _MESSAGES.get(state):
            yield f"it is {state}, and has {self.finals} final and {self.parked} parked messages"
        if self.in_table is not (state == OPEN):
            yield f"it is {state}, and the table of open transactions {'has' if self.in_table else 'lacks'} it"
        if self.known_as != state:
            yield f"it is {state}, and the broker knows it as {self.known_as}"
        if self.answers and self.answers != state:
            yield f"it is {state}, and ends that come again are answered as if it were {self.answers}"


@dataclass(slots=True)
class View:
    """A broker after its start."""

    failure: str = ""
    """Why it did not start; then there is nothing else."""
    start: int = 0
    end: int = 0
    """Of the log, as recovery found it."""
    differs_at: int = 0
    """Up to there the log holds, byte by byte, what the workload wrote."""
    quarantined: int = 0
    places: dict[Place, tuple[str, int]] = field(default_factory=dict)
    """Of every record with a queue: name and log offset."""
    copies: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(topic, name) to how many records."""
    halves: dict[HalfPlace, HalfView] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What is wrong whatever was acknowledged."""
    topics: frozenset[str] = frozenset()
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)


def reopen(
    disk: SimDisk, played: Played, note: Note = lambda *_fact: None, begun: Callable[[Station], None] | None = None
) -> View:
    """Start a broker on a disk and look. ``note``: is told what clients asked and were answered behind the start;
    ``begun``: gets the broker before it starts."""
    view = View()
    station = Station(disk, played.flush, played.took_ms + LATE_MS)
    if begun is not None:
        begun(station)
    try:
        station.run(_look(station, played, view, note))
    except (GantryError, OSError, PowerCut, RuntimeError, ArithmeticError, AssertionError, LookupError, ValueError,
            TypeError, AttributeError) as error:  # fmt: skip
        view.failure = f"{type(error).__name__}: {error}"
    finally:
        station.end()
    view.problems += station.errors
    return view


async def _look(station: Station, played: Played, view: View, note: Note) -> None:
    broker = station.broker
    await broker.start()
    await broker.store.flush_everything()
    store = broker.store
    view.start, view.end = store.min_log_offset, store.recovered.end
    view.quarantined = len(store.recovered.quarantined)
    view.differs_at = _differs_at(station, played, view)
    await _settled(broker)
    view.topics = frozenset(name for name in (TOPIC, OTHER) if broker.topics.get(name) is not None)
    for topic in broker.offsets.topics_of(READERS):
        for queue, offset in broker.offsets.of_topic(READERS, topic).items():
            view.offsets[READERS, topic, queue] = offset
    _read_log(store, view)
    view.problems += queue_problems(store, {place: at for place, (_, at) in view.places.items()})
    for view_of_half in view.halves.values():
        decision = broker.coordinator.table.decisions[view_of_half.place[0]]
        view_of_half.known_as = _NAMES.get(decision, decision.name)
    for half in broker.coordinator.table:
        open_half = view.halves.get((half.queue_offset, half.log_offset))
        if open_half is None:
            view.problems.append(f"the table holds a half at {half.queue_offset} that is not in the log")
        else:
            open_half.in_table = True
    await _Prober(station, view, note).ask()


async def _settled(broker: Broker) -> None:
    """Return when nothing waits any more: everything is due by now."""
    store = broker.store
    for _ in range(SETTLE_TRIES):
        done = broker.delay.delivered()
        ends = {level: store.queue_range(SCHEDULE, level - 1)[1] for level in range(1, 3)}
        delayed = any(done.get(level, 0) < end for level, end in ends.items())
        timed = broker.timer is not None and not broker.timer.idle
        if not delayed and not timed and not len(broker.popping.consumption.revive_log.ledger):
            return
        await asyncio.sleep(0.1)
    raise InvariantViolated("what is due is never delivered")


def _differs_at(station: Station, played: Played, view: View) -> int:
    for base, whole in sorted(played.log.items()):
        first, end = max(view.start - base, 0), min(view.end - base, len(whole))
        if first < end:
            path = f"{LOG}/{base:020d}"
            data = station.disk.open(path).read(end - first, first) if station.disk.exists(path) else b""
            if data != whole[first:end]:
                return base + first + _alike(data, whole[first:end])
    return view.end


def _alike(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, its) in pairs if mine != its), min(len(one), len(other)))


def _read_log(store: MessageStore, view: View) -> None:
    """Every record, in the order of the log: each message lies behind the half it belongs to."""
    by_log_offset: dict[int, HalfView] = {}
    by_queue_offset: dict[int, HalfView] = {}
    for record in store.scan(view.start):
        name = name_in(record.body)
        view.places[record.topic, record.queue_id, record.queue_offset] = (name, record.log_offset)
        view.copies[record.topic, name] += 1
        if record.topic == HALF:
            place = (record.queue_offset, record.log_offset)
            half = view.halves[place] = HalfView(name, place)
            by_log_offset[place[1]] = by_queue_offset[place[0]] = half
        elif record.topic == OP:
            _take_op(record, by_queue_offset)
        elif record.topic == PARKED or flags.transaction_type(record.sys_flag) == flags.COMMITTED:
            _take_outcome(record, name, by_log_offset, view)


def _take_op(record: StoredMessage, halves: dict[int, HalfView]) -> None:
    for offset in parse_op(record.body):
        if offset in halves:
            halves[offset].ops.append(_NAMES.get(Decision.of_op(record.flag), "settled, who knows how"))


def _take_outcome(record: StoredMessage, name: str, halves: dict[int, HalfView], view: View) -> None:
    half = halves.get(record.prepared_transaction_offset)
    if half is None:
        if record.prepared_transaction_offset >= view.start:
            view.problems.append(f"{name} in {record.topic} comes from a half that is not there")
    elif half.name != name:
        view.problems.append(f"{name} in {record.topic} comes from the half of {half.name}")
    elif record.topic == PARKED:
        half.parked += 1
    else:
        half.finals += 1


class _Prober:
    """Asks a broker what only its answers tell. It writes, so it comes last."""

    def __init__(self, station: Station, view: View, note: Note) -> None:
        self._store = station.broker.store
        self._disk = station.disk
        self._view = view
        self._answers: list[Command] = []
        self._caller = Caller(station, note, {}, answers=self._answers)

    async def ask(self) -> None:
        await self._caller.heartbeat()
        if self._disk.free_bytes is not None:
            await self._leave_a_full_disk()
        for half in [half for half in self._view.halves.values() if not half.in_table][-ASKED:]:
            codes = [await self._end(half, decision) for decision in (COMMIT, ROLLBACK)]
            half.answers = _BY_ANSWERS.get((codes[0], codes[1]), f"neither ({codes[0]}, {codes[1]})")
        if TOPIC not in self._view.topics:
            return
        await self._plain()
        await self._transactions()

    async def _leave_a_full_disk(self) -> None:
        """Everything that is open can be ended, also now; then somebody makes room, and the broker takes messages
        again by itself."""
        for number, half in enumerate(half for half in self._view.halves.values() if half.in_table):
            code = await self._end(half, ROLLBACK if number % 2 else COMMIT)
            if code != OK:
                self._complain(f"on a full disk {half.name} cannot be ended: {self._answers[-1].remark}")
            half.ended_on_a_full_disk = True
        self._disk.free_bytes = None
        await asyncio.sleep(TIGHT_LOOK_SECONDS)

    async def _end(self, half: HalfView, decision: str) -> int:
        await self._caller.end(half.name, decision, place=half.place)
        return self._answers[-1].code

    async def _plain(self) -> None:
        wanted = self._store.queue_range(TOPIC, 0)[1]
        await self._caller.send(f"after-{wanted}", TOPIC)
        answer = self._answers[-1]
        if answer.code != OK:
            self._complain(f"a message is refused: {answer.remark}")
        elif answer.header(SendMessageAnswer).queue_offset != wanted:
            self._complain(f"the next message of {TOPIC}:0 is not its {wanted}th")

    async def _transactions(self) -> None:
        """A new one, and those that are open, can be ended, once."""
        name = f"after-half-{self._store.next_offset(HALF, 0)}"  # another one than that of a life before
        await self._caller.half(name, TOPIC)
        if self._answers[-1].code != OK:
            self._complain(f"a half message is refused: {self._answers[-1].remark}")
            return
        fresh = HalfView(name, self._caller.places[name])
        left = [half for half in self._view.halves.values() if half.in_table and not half.ended_on_a_full_disk]
        for half in [fresh, *left[-ASKED:]]:
            before = self._store.queue_range(TOPIC, 0)[1] + self._store.queue_range(TOPIC, 1)[1]
            codes = [await self._end(half, decision) for decision in (COMMIT, ROLLBACK, COMMIT)]
            after = self._store.queue_range(TOPIC, 0)[1] + self._store.queue_range(TOPIC, 1)[1]
            if codes != [OK, _REFUSED, OK] or after != before + 1:
                self._complain(f"{half.name} is open; commit, rollback and commit are answered {codes}, "
                               f"{after - before} messages are delivered")  # fmt: skip

    def _complain(self, text: str) -> None:
        self._view.problems.append(f"after the start: {text}")
