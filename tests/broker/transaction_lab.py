"""A transaction coordinator with a real store. The test sets the time and lets the disk answer."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gantrymq.broker.client import Check, Operator
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.transactions.end import EndRequest
from gantrymq.errors import DiskFull, StoreError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.stored_message import decode_record, pack_host
from gantrymq.runtime.clock import Timer
from gantrymq.runtime.disk import File, OsDisk, Syncable
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.table.open_halves import OpenHalf

HOST = pack_host("127.0.0.1:30911")
GROUP = "PG_lab"
TOPIC = "Orders"
DONE = "done"
"""The result of an operation that was not refused."""


class _Call:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class LabClock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.wall = 1_795_000_000_000
        self._soon: deque[Callable[[], None]] = deque()
        self._later: list[tuple[float, int, _Call]] = []
        self._count = 0

    def wall_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.now

    def elapsed(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def call_soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        entry = _Call(call)
        self._count += 1
        heapq.heappush(self._later, (self.now + max(seconds, 0.0), self._count, entry))
        return entry

    def forget(self) -> None:
        """A process died: nothing it had planned will happen. Its timers must not write into its successor's files."""
        self._soon.clear()
        self._later.clear()

    def run(self) -> None:
        """Everything that is ready now."""
        while True:
            while self._soon:
                self._soon.popleft()()
            if not self._later or self._later[0][0] > self.now:
                return
            _, _, entry = heapq.heappop(self._later)
            if entry.call is not None:
                self._soon.append(entry.call)

    def advance(self, seconds: float) -> None:
        """Let time pass, event by event."""
        self.run()
        end = self.now + seconds
        while self._later and self._later[0][0] <= end:
            self._move_to(max(self._later[0][0], self.now))
            self.run()
        self._move_to(end)
        self.run()

    def _move_to(self, now: float) -> None:
        self.wall += round((now - self.now) * 1000)
        self.now = now


class LabDisk(OsDisk):
    """The real file system. Syncs are answered at the end of the turn, or when the test says so."""

    def __init__(self, clock: LabClock) -> None:
        super().__init__()
        self._clock = clock
        self.held: deque[Callable[[BaseException | None], None]] | None = None
        self.full = False

    def hold(self) -> None:
        """From now on no sync is answered."""
        self.held = deque()

    def release(self, error: BaseException | None = None) -> None:
        """Answer what was held, and hold no more."""
        held, self.held = self.held or deque(), None
        for done in held:
            done(error)
        self._clock.run()

    def sync_later(self, files: Sequence[Syncable], done: Callable[[BaseException | None], None]) -> None:
        if self.held is not None:
            self.held.append(done)
        else:
            self._clock.call_soon(lambda: done(None))

    def open(self, path: str, *, create: bool = False) -> File:
        return _LabFile(super().open(path, create=create), self)


class _LabFile:
    """A file that cannot be written while the disk is full."""

    def __init__(self, file: File, disk: LabDisk) -> None:
        self._file = file
        self._disk = disk
        self.path = file.path
        self.read, self.truncate, self.size = file.read, file.truncate, file.size
        self.sync, self.close, self.next_data = file.sync, file.close, file.next_data

    def write(self, data: bytes, offset: int) -> None:
        if self._disk.full:
            raise DiskFull(f"no space left for {self.path}")
        self._file.write(data, offset)


class LabClient:
    """A producer's connection; ``asked`` holds the checks that were sent to it."""

    count = 0

    def __init__(self, address: str | None = None) -> None:
        LabClient.count += 1
        self.id = LabClient.count
        self.client_ids: set[str] = set()
        self.address = address or f"192.0.2.1:{40000 + self.id}"
        self.host = pack_host(self.address)
        self.alive = True
        self.writable = True
        self.asked: list[Check] = []

    def ask(self, check: Check) -> None:
        self.asked.append(check)

    def checks(self) -> list[tuple[Check, StoredMessage]]:
        """The checks that came, with their messages."""
        return [(check, decode_record(check.message)) for check in self.asked]


class LabProducers:
    """Producer groups by session, round robin."""

    def __init__(self) -> None:
        self.groups: dict[str, list[LabClient]] = {}
        self._next = 0

    def pick(self, group: str, turn: int | None = None, topic: str = "") -> LabClient | None:
        usable = [session for session in self.groups.get(group, ()) if session.writable]
        self._next += 1
        return usable[self._next % len(usable)] if usable else None

    def members(self, group: str) -> list[LabClient]:
        return self.groups.get(group, [])

    def is_member(self, group: str, session: object) -> bool:
        return session in self.groups.get(group, ())

    def client_ids(self, session: object) -> set[str]:
        return session.client_ids

    def connection_of(self, client_id: str) -> LabClient | None:
        everybody = [session for group in self.groups.values() for session in group]
        return next((session for session in everybody if session.alive and client_id in session.client_ids), None)


class LabOffsets:
    def __init__(self) -> None:
        self.committed: dict[str, int] = {}

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.committed[topic] = offset


@dataclass
class LabTopic:
    read_queue_nums: int


class LabTopics(dict[str, LabTopic]):
    """Topics of a broker, as far as transactions look at them."""

    def ensure(self, topic: str, queues: int) -> object:
        return self.setdefault(topic, LabTopic(queues))


class Lab:
    """One broker's store and coordinator; ``restart`` and ``crash`` keep the directory."""

    def __init__(self, root: Path, *, flush: FlushDiskType = FlushDiskType.SYNC_FLUSH, **config: object) -> None:
        self.root = root
        self.flush = flush
        self.index = True
        """Whether the store keeps an index of keys; counts for the next ``open``."""
        self.config = TransactionConfig(broker_name="broker-a", **config)  # type: ignore[arg-type]
        self.clock = LabClock()
        self.topics = LabTopics({TOPIC: LabTopic(4)})
        self.offsets = LabOffsets()
        self.producers = LabProducers()
        self._keys = 0
        self.open()

    def open(self) -> None:
        self.disk = LabDisk(self.clock)
        config = StoreConfig(
            root=str(self.root), flush_disk_type=self.flush, mapped_file_size_commit_log=1 << 20,
            mapped_file_size_consume_queue=20_000, max_index_num=2_000, max_hash_slot_num=500,
            message_index_enable=self.index,
        )  # fmt: skip
        self.store = MessageStore.open(config, self.disk, self.clock, HOST)
        self.clock.run()
        self.coordinator = TransactionCoordinator(
            self.store, self.producers, self.topics, self.offsets, self.clock, self.disk, self.config, HOST
        )
        self.coordinator.rebuild()
        self.coordinator.start()
        self.clock.run()

    def crash(self) -> None:
        """The process is killed: what was written stays, what was only in memory is gone."""
        self.clock.forget()
        self.store._lock.release()

    def power_cut(self, kept: float, *, whole_records: bool = False) -> None:
        """The machine dies: of what was written since the last sync, the share ``kept`` (0 to 1) made it."""
        flushed, written = self.store.flushed, self.store.written
        end = flushed + round((written - flushed) * kept)
        if whole_records:
            borders = [flushed]
            while borders[-1] < end:
                borders.append(borders[-1] + int.from_bytes(self.store._log.read(borders[-1], 4), "big"))
            end = borders[-1]
        self.crash()
        for log in sorted((self.root / "commitlog").glob("0*")):
            base = int(log.name)
            if base + log.stat().st_size > end:
                data = log.read_bytes()
                keep = max(end - base, 0)
                log.write_bytes(data[:keep] + bytes(len(data) - keep))

    def online(self, group: str = GROUP, client_id: str | None = None) -> LabClient:
        """A producer of the group connects and sends its heartbeat. ``client_id``: default: one of its own."""
        session = LabClient()
        session.client_ids.add(client_id or f"client-{session.id}")
        for name in session.client_ids:
            self.coordinator.client_came(name, session)
        self.producers.groups.setdefault(group, []).append(session)
        self.coordinator.producer_joined(group)
        self.clock.run()
        return session

    def offline(self, session: LabClient, group: str = GROUP) -> None:
        session.alive = False
        self.coordinator.client_gone(session)
        self.producers.groups[group].remove(session)
        self.clock.run()

    def message(self, key: str, body: bytes = b"paid", **more: str) -> NewRecord:
        text = properties.encode({"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key, "TAGS": "TagA"} | more)
        return NewRecord(
            topic=TOPIC, queue_id=1, body=body, properties=text, born_timestamp=self.clock.wall, born_host=HOST
        )

    def new_key(self) -> str:
        self._keys += 1
        return f"KEY{self._keys:04d}"

    def half(
        self, session: LabClient | None = None, key: str | None = None, body: bytes = b"paid", **more: str
    ) -> Half:
        """Send a half message; run the loop to see it answered."""
        result = Half(self, key or self.new_key())
        record = self.message(result.key, body, **more)
        if session is not None:
            record.born_host = session.host
        self.coordinator.put_half(record, GROUP, result.key, result.done)
        self.clock.run()
        return result

    def end(
        self, client: LabClient, half: Half, resolution: int, *, check: bool = False, group: str = GROUP,
        one_way: bool = False, place: tuple[int, int] | None = None, operator: str | None = None,
        named: str | None = None,
    ) -> Ended:  # fmt: skip
        """End a transaction; run the loop to see it answered. ``operator``: the note of one who decides."""
        request = EndRequest(
            group, *(place or half.place), half.key if named is None else named, None, Resolution(resolution), check,
            None if operator is None else Operator(operator),
        )  # fmt: skip
        ended = Ended()
        try:
            self.coordinator.ends.end(client, request, None if one_way else ended.done)
        except Refused as refused:
            ended.done(refused)
        self.clock.run()
        return ended

    def commit(
        self, session: LabClient, half: Half, *, check: bool = False, one_way: bool = False, named: str | None = None
    ) -> Ended:  # fmt: skip
        """``named``: the id in the request, when it is not the half's."""
        return self.end(session, half, Resolution.COMMIT, check=check, one_way=one_way, named=named)

    def roll_back(self, session: LabClient, half: Half) -> Ended:
        return self.end(session, half, Resolution.ROLLBACK)

    def delivered(self, topic: str = TOPIC, queue_id: int = 1) -> list[StoredMessage]:
        """What consumers of the topic get."""
        return self.records(topic, queue_id)

    def ops(self) -> list[StoredMessage]:
        return self.records(OP, 0)

    def halves(self) -> list[StoredMessage]:
        return self.records(HALF, 0)

    def records(self, topic: str, queue_id: int) -> list[StoredMessage]:
        found = []
        for offset in range(*self.store.queue_range(topic, queue_id)):
            entry = self.store.entry(topic, queue_id, offset)
            record = None if entry is None else self.store.read(entry.log_offset)
            if record is not None:
                found.append(record)
        return found


class Half:
    """A half message as its sender sees it."""

    def __init__(self, lab: Lab, key: str) -> None:
        self.key = key
        self._lab = lab
        self.stored: OpenHalf | None = None
        self.error: StoreError | None = None
        self.answered = 0

    def done(self, half: OpenHalf, error: StoreError | None) -> None:
        self.answered += 1
        self.stored, self.error = half, error

    @property
    def place(self) -> tuple[int, int]:
        assert self.stored is not None, "the half message was not answered"
        return self.stored.queue_offset, self.stored.log_offset


class Ended:
    """The end of a transaction as its client sees it."""

    def __init__(self) -> None:
        self.result: object = None
        """None while it was not answered, then DONE or the Refusal."""
        self.remark = ""

    def done(self, refused: Refused | None) -> None:
        assert self.result is None, "a request is answered once"
        self.result = DONE if refused is None else refused.reason
        self.remark = "" if refused is None else refused.remark

    @property
    def refused(self) -> bool:
        return isinstance(self.result, Refusal)
