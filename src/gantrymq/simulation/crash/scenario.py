"""The fixed workload that every crash interrupts: small, and with everything in it that a broker writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.transactions.derived_files import DECISIONS_INTERVAL_S
from gantrymq.errors import InvariantViolated
from gantrymq.message.system_topics import PARKED
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import pack_host
from gantrymq.simulation.crash.client import Caller
from gantrymq.simulation.crash.journal import Cut, JournalDisk
from gantrymq.simulation.crash.ledger import COMMIT, PARK, ROLLBACK, Fact, HalfPlace
from gantrymq.simulation.crash.station import ADDRESS, CHECKS, Station

TOPIC, OTHER = "Orders", "Notices"
LOG = "/store/commitlog"
RETENTION_S = 11.0
_CONFLICT: Final = ResponseCode.ILLEGAL_OPERATION
_FULL: Final = ResponseCode.SERVICE_NOT_AVAILABLE


@dataclass(frozen=True, slots=True)
class LogPositions:
    """Where the broker's log was before an operation, in bytes from its start."""

    start: int = 0
    visible: int = 0
    """Consumers may have got everything before it."""
    flushed: int = 0

    def later(self, station: Station) -> LogPositions:
        """The same of a broker now; this one when it has not opened its store."""
        store = getattr(station.broker, "store", None)
        return self if store is None else LogPositions(store.min_log_offset, store.max_log_offset, store.flushed)


@dataclass(frozen=True, slots=True)
class Played:
    """A workload that was played to its end."""

    flush: str
    cuts: list[Cut]
    positions: list[LogPositions]
    """For each cut."""
    facts: list[Fact]
    log: dict[int, bytes]
    """All files the log ever had, by the offset of their first byte."""
    took_ms: int
    errors: list[str]


class ScenarioRun:
    """Plays the workload once, and keeps what every crash of it needs."""

    def __init__(self, flush: str) -> None:
        self.flush = flush
        self.facts: list[Fact] = []
        self.cuts: list[Cut] = []
        self.positions: list[LogPositions] = []
        self.log: dict[int, bytes] = {}
        self.disk = JournalDisk(self._cut)
        self.station: Station
        self.caller: Caller
        self.places: dict[str, HalfPlace] = {}
        self.now_ms = 0

    def play(self, chapters: tuple[str, ...]) -> Played:
        errors: list[str] = []
        for names in chapters:
            self.station = Station(self.disk, self.flush, self.now_ms)
            try:
                self.station.run(self._live(names.split()))
            finally:
                errors += self.station.errors
                self.now_ms = self.station.now_ms
                self.station.end()
        self._cut(self.disk.freeze())
        return Played(self.flush, self.cuts, self.positions, self.facts, self.log, self.now_ms, errors)

    async def _live(self, chapters: list[str]) -> None:
        """One process, from its start to its orderly stop."""
        await self.station.broker.start()
        self.caller = Caller(self.station, self._note, self.places)
        await self.caller.heartbeat()
        for name in chapters:
            await CHAPTERS[name](self)
        await self.station.broker.close()
        self._note("stopped")
        self.copy_log()

    def _note(self, kind: str, name: str = "", place: tuple[object, ...] = (), value: str = "") -> None:
        self.facts.append(Fact(self.disk.operations, kind, name, place, value))

    def _cut(self, cut: Cut) -> None:
        self.cuts.append(cut)
        self.positions.append((self.positions[-1] if self.positions else LogPositions()).later(self.station))

    def copy_log(self) -> None:
        """To be called before files of the log are removed, too."""
        for name in self.disk.list(LOG):
            path = f"{LOG}/{name}"
            self.log[int(name)] = self.disk.open(path).read(self.disk.size(path), 0)

    # ---- chapters

    async def topics(self) -> None:
        await self.caller.create_topic(TOPIC, 2)
        await self.caller.create_topic(OTHER, 1)

    async def plain(self) -> None:
        """Alone, and several under one sync."""
        await self.caller.send("plain-0", TOPIC)
        await asyncio.gather(
            self.caller.send("plain-1", TOPIC, 1, 700), self.caller.send("plain-2", OTHER, 0, 20),
            self.caller.send("plain-3", TOPIC),
        )  # fmt: skip
        await asyncio.sleep(1.5)

    async def batch(self) -> None:
        await self.caller.send_batch([f"batch-{number}" for number in range(3)], TOPIC, 1, 120)

    async def delayed(self) -> None:
        await self.caller.send("delayed-1", OTHER, level=1)
        await asyncio.sleep(0.7)
        await self.caller.send("delayed-2", OTHER, level=1, size=400)
        await asyncio.sleep(1.1)

    async def waiting(self) -> None:
        """Delayed, timer and popped messages that come in batches, side by side."""
        call = self.caller
        await _all(*(call.send(f"popped-{number}", OTHER, size=40) for number in range(2)))
        await _all(*(call.send(f"delayed-a{number}", OTHER, level=1, size=50) for number in range(3)))
        await _all(*(call.send(f"timer-{number}", OTHER, size=70, timer_ms=1_100) for number in range(3)))
        await call.pop(OTHER, 2, 1_200)
        await _all(*(call.send(f"timer-late{number}", OTHER, timer_ms=4_000) for number in range(2)))
        await asyncio.sleep(3)
        await _all(*(call.send(f"delayed-b{number}", OTHER, level=2) for number in range(2)))
        await asyncio.sleep(3)

    async def ends(self) -> None:
        """Committed, rolled back; the same again; the opposite; both at once."""
        call = self.caller
        await asyncio.gather(call.half("commit", TOPIC), call.half("rollback", TOPIC, 1))
        await _all(call.end("commit", COMMIT))
        await _all(call.end("rollback", ROLLBACK))
        await _all(
            call.end("commit", COMMIT), call.end("commit", ROLLBACK, _CONFLICT),
            call.end("rollback", COMMIT, _CONFLICT), call.end("rollback", ROLLBACK),
        )  # fmt: skip
        await call.half("race", TOPIC, size=500)
        await _all(call.end("race", ROLLBACK), call.end("race", COMMIT, _CONFLICT), call.end("race", ROLLBACK))
        await call.half("one-way", TOPIC)
        call.end_one_way("one-way", COMMIT)
        await asyncio.sleep(0.3)

    async def joined(self) -> None:
        """A half is sent again before it was answered, and once more after that."""
        call = self.caller
        await asyncio.gather(call.half("joined", TOPIC), call.half("joined", TOPIC))
        await call.half("joined", TOPIC)
        await _all(call.end("joined", COMMIT))

    async def early(self) -> None:
        """An end while its half's write is under way: refused; the half is ended later."""
        call = self.caller
        store = self.station.broker.store
        guess = (store.next_offset("RMQ_SYS_TRANS_HALF_TOPIC", 0), store.appended)
        stored = call.half("early", TOPIC)
        refused = call.end("early", COMMIT, ResponseCode.SYSTEM_ERROR, place=guess)
        await _all(stored, refused)
        if call.places["early"] != guess:
            raise InvariantViolated("the workload guesses where a half message goes, and was wrong")
        await _all(call.end("early", ROLLBACK))

    async def many(self) -> None:
        """Transactions side by side: their decisions share writes and syncs."""
        call = self.caller
        names = [f"many-{number}" for number in range(5)]
        await asyncio.gather(*(call.half(name, TOPIC, number % 2, 150) for number, name in enumerate(names)))
        await _all(*(call.end(name, ROLLBACK if name == "many-2" else COMMIT) for name in names))

    async def late(self) -> None:
        """Decided right before the file of decisions is written; with ASYNC_FLUSH the log is not synced by then."""
        call, now_s = self.caller, self.station.loop.time()
        await asyncio.sleep(2 * DECISIONS_INTERVAL_S - now_s % DECISIONS_INTERVAL_S - 0.1)
        await asyncio.gather(call.half("late-0", TOPIC), call.half("late-1", TOPIC))
        await _all(call.end("late-0", COMMIT), call.end("late-1", ROLLBACK))
        await asyncio.sleep(1)

    async def keeper(self) -> None:
        """Open until retention has met it."""
        await self.caller.half("keeper", TOPIC)

    async def left_open(self) -> None:
        """Nobody ends these before the first life ends, or ever."""
        await asyncio.gather(self.caller.half("next-life", TOPIC, 1), self.caller.half("never", TOPIC, 1))

    async def checked(self) -> None:
        """Unknown, asked about, and then committed."""
        call = self.caller
        await call.half("checked", TOPIC)
        await _all(call.end("checked", ""))
        await self._until(lambda: "checked" in call.checked)
        await _all(call.end("checked", COMMIT, check=True))

    async def parked(self) -> None:
        """Unknown until it is put aside; an operator resumes it; then it is committed."""
        call, store = self.caller, self.station.broker.store
        await call.half("parked", TOPIC)
        place = call.places["parked"]
        for count in range(1, CHECKS + 1):
            await self._until(lambda count=count: len(call.checked.get("parked", ())) >= count)  # type: ignore[misc]
            if count == CHECKS:
                self._note("end", "parked", place, PARK)
            await _all(call.end("parked", "", check=True))
        await self._until(lambda: store.queue_range(PARKED, 0)[1] > 0)
        self._note("ended", "parked", place, PARK)
        await asyncio.sleep(2)
        entry = store.entry(PARKED, 0, 0)
        if entry is None:
            raise InvariantViolated("a parked message can be read")
        await call.resume("parked", offset_message_id(pack_host(f"{ADDRESS}:10911"), entry.log_offset))
        await self._until(lambda: call.places["parked"] != place)
        await _all(call.end("parked", COMMIT, check=True))

    async def offsets(self) -> None:
        """A consumer goes on; its offsets are written every few seconds."""
        for offset in (1, 2):
            await self.caller.commit_offset(TOPIC, 0, offset)
            await self.caller.commit_offset(TOPIC, 1, offset)
            await asyncio.sleep(5.2)

    async def roll(self) -> None:
        """So much that the log, the queues and the index begin new files."""
        for wave in range(9):
            await asyncio.gather(*(
                self.caller.send(f"roll-{wave}-{number}", TOPIC, number % 2, 30 + 50 * number)
                for number in range(4)
            ))  # fmt: skip
            await asyncio.sleep(0.4)

    async def more(self) -> None:
        """A little of everything behind the new files."""
        call = self.caller
        await asyncio.gather(call.send("more-0", OTHER, size=90), call.half("more-half", TOPIC))
        await _all(call.end("more-half", COMMIT), call.send("more-1", TOPIC, 1, 333))
        await asyncio.sleep(6)

    async def retention(self) -> None:
        """The disk gets full to 80 %: an open half keeps its file."""
        disk, start = self.disk, self.station.broker.store.min_log_offset
        disk.used_bytes = disk.total_bytes * 8 // 10
        await asyncio.sleep(RETENTION_S)
        if self.station.broker.store.min_log_offset != start:
            raise InvariantViolated("retention passed an open half message")
        disk.used_bytes = 0

    async def full_disk(self) -> None:
        """Another program takes the rest of it: messages are refused, what is open is decided from the reserve, then
        old files go, and messages are taken again."""
        call, disk, store = self.caller, self.disk, self.station.broker.store
        await _all(*(call.half(f"full-{number}", TOPIC) for number in range(2)))
        self.copy_log()
        start = store.min_log_offset
        disk.free_bytes = 0
        store.room.look()
        await _all(call.send("refused", TOPIC, code=_FULL), call.half("refused-half", TOPIC, code=_FULL))
        await call.commit_offset(TOPIC, 0, 5)
        await _all(call.end("full-0", COMMIT), call.end("full-1", ROLLBACK), call.end("keeper", COMMIT))
        await asyncio.sleep(RETENTION_S)
        if store.min_log_offset == start:
            raise InvariantViolated("retention removes nothing from a full disk")
        await _all(call.send("sent-again", TOPIC), call.half("half-again", TOPIC))
        await _all(call.end("half-again", COMMIT))
        disk.free_bytes = None

    async def next_life(self) -> None:
        """After an orderly stop and a start: what was open is ended."""
        await _all(self.caller.end("next-life", COMMIT), self.caller.send("again-0", OTHER))
        await self.caller.half("again", TOPIC, 1)
        await _all(self.caller.end("again", ROLLBACK))
        await self.caller.commit_offset(TOPIC, 1, 3)
        await asyncio.sleep(6)

    async def _until(self, true: Callable[[], bool]) -> None:
        for _ in range(1000):
            if true():
                return
            await asyncio.sleep(0.1)
        raise InvariantViolated("the workload waits for what never comes")


async def _all(*waited: Awaitable[object]) -> None:
    await asyncio.gather(*waited)


CHAPTERS: Final[dict[str, Callable[[ScenarioRun], Awaitable[None]]]] = {
    name: getattr(ScenarioRun, name)
    for name in (
        "topics", "plain", "batch", "delayed", "waiting", "ends", "joined", "early", "many", "late", "keeper",
        "left_open", "checked", "parked", "offsets", "roll", "more", "retention", "full_disk", "next_life",
    )
}  # fmt: skip

_BEGINNING: Final = "topics keeper plain batch delayed waiting ends joined early many late"
WHOLE: Final = (f"{_BEGINNING} checked parked offsets roll left_open more retention full_disk", "next_life")
"""The chapters of each life of the broker."""
SHORT: Final = ("topics plain ends many left_open more", "next_life")


def play(flush: str, chapters: tuple[str, ...] = WHOLE) -> Played:
    """The same every time."""
    return ScenarioRun(flush).play(chapters)
