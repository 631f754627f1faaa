"""Two stores, of which one is fed the log of the other, and what must be equal in both."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Final

from gantrymq.message import flags
from gantrymq.message.system_topics import HALF, OP, SCHEDULE
from gantrymq.protocol.hosts import pack_host
from gantrymq.simulation.world.cluster import EPOCH_MS
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.store.log.records import LogWalk
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from gantrymq.testing.local.node import Node, NodeClock

HOST: Final = pack_host("10.0.0.2:10911")
ROOT: Final = "/store"
FOLLOWS: Final = "this store is a replica"
QUEUE_FILE_BYTES: Final = 400
LEVEL_3_MS: Final = 10_000
"""How long a message of delay level 3 waits."""


class Side:
    """A machine with a disk, and a process on it that has a store open."""

    def __init__(self, name: str, seed: int, loop: asyncio.AbstractEventLoop, flush: FlushDiskType) -> None:
        self.name = name
        self._loop = loop
        self.config: Final = StoreConfig(
            ROOT, mapped_file_size_commit_log=16384, mapped_file_size_consume_queue=QUEUE_FILE_BYTES,
            max_index_num=120, max_hash_slot_num=40, flush_disk_type=flush, disk_space_warning_ratio=1.0,
            disk_space_reserve=1 << 16,
        )  # fmt: skip
        self.disk = SimDisk(seed)
        self.store: MessageStore
        self._node: Node
        self.open()

    def open(self, *, follows: bool = False) -> None:
        """Start a process, which recovers the store."""
        self._node = Node(self.name, self._loop)
        self.store = MessageStore.open(self.config, self.disk, NodeClock(self._node, EPOCH_MS), HOST)
        if follows:
            self.store.follow(FOLLOWS)

    def crash(self, *, power: bool, follows: bool) -> None:
        """End the process, or its machine, in the middle of whatever it does, and start it again."""
        self._node.kill()
        self.disk = self.disk.power_cut() if power else self.disk.process_dies()
        self.open(follows=follows)

    async def restart(self, *, follows: bool) -> None:
        """Stop in order, and start again."""
        await self.store.close()
        self.open(follows=follows)

    @property
    def end(self) -> int:
        """Behind the last whole record that is in the file."""
        return self.store.written

    def boundaries(self) -> list[int]:
        """Where a record begins, and the end of the log."""
        store = self.store
        walk = LogWalk(store._log.files, store.min_log_offset, store.written)
        return [place for place, *_ in walk] + [store.written]

    def log(self, start: int, end: int) -> bytes:
        return self.store._log.files.read(start, end - start)


def records(rng: random.Random, number: int, now_ms: int) -> Iterator[NewRecord]:
    """Some records of every kind; ``number``: of the first one. ``now_ms``: when they are stored."""
    for count in range(number, number + rng.randint(1, 8)):
        topic, queue_id, text, sys_flag, made_of = "orders", rng.randrange(3), f"KEYS\x01k{count}\x02", 0, 0
        match rng.randrange(8):
            case 0:
                topic, queue_id, text = HALF, 0, f"UNIQ_KEY\x01u{count}\x02REAL_TOPIC\x01orders\x02PGROUP\x01g\x02"
            case 1:
                topic, queue_id, text = OP, 0, "TAGS\x01d\x02"
            case 2:
                text, sys_flag, made_of = f"UNIQ_KEY\x01u{count}\x02", flags.COMMITTED, rng.randrange(1, 1000)
            case 3:
                topic, queue_id, text = SCHEDULE, 2, "DELAY\x013\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"
            case 4:
                sys_flag = flags.ROLLED_BACK
            case 5:
                topic, text = f"t{rng.randrange(5)}", "TAGS\x01paid\x02"
        size = 3000 if rng.random() < 0.05 else rng.randrange(200)
        tags = now_ms + LEVEL_3_MS if topic == SCHEDULE else None
        yield NewRecord(
            topic, queue_id, rng.randbytes(size), text, EPOCH_MS, HOST, 0, sys_flag, 0, made_of, tags
        )  # fmt: skip


def differences(primary: Side, replica: Side) -> Iterator[str]:
    """What is not in the replica as it is in the primary, up to the end of the replica's log."""
    theirs, ours = primary.store, replica.store
    start, end = ours.min_log_offset, replica.end
    if primary.log(start, end) != replica.log(start, end):
        yield f"the logs differ between {start} and {end}"
    segment = ours._log.files.segment(end)
    if segment is not None and (behind := segment.next_nonzero(end)) is not None:
        yield f"the log ends at {end}, and bytes lie behind it at {behind}"
    waiting = ours._dispatch._pending
    if ours.max_log_offset > end or (waiting and waiting[0][0] <= stored_end(replica)):
        yield f"what is visible ends at {ours.max_log_offset}, and the log at {end}"
    limit = min(ours.max_log_offset, theirs.max_log_offset)
    for key in sorted(theirs._queues.queues.keys() | ours._queues.queues.keys()):
        yield from _queue_differs(primary, replica, key, limit)


def stored_end(side: Side) -> int:
    """How far every record is visible by now."""
    return side.end if side.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH else side.store.flushed


def _queue_differs(primary: Side, replica: Side, key: tuple[str, int], limit: int) -> Iterator[str]:
    """The entries before log offset ``limit``."""
    theirs, ours = primary.store._queues.get(key), replica.store._queues.get(key)
    wanted = 0 if theirs is None else theirs.first_at(limit)
    found = 0 if ours is None else ours.first_at(limit)
    if found != wanted:
        yield f"queue {key} has {found} entries and not {wanted}"
    elif theirs is not None and ours is not None:
        if ours.raw(0, found) != theirs.raw(0, wanted):
            yield f"the entries of queue {key} differ"
        if not ours.has_unwritten:
            entries = ours.raw(0, ours.max_offset)
            in_files = b"".join(_file(replica.disk, path) for path in ours.paths)
            if in_files.rstrip(b"\0") != entries.rstrip(b"\0"):
                yield f"the files of queue {key} hold something else than its entries"


def _file(disk: SimDisk, path: str) -> bytes:
    return bytes(disk.bytes_of(path)[0])


def index_differences(primary: Side, replica: Side) -> Iterator[str]:
    """Whether both index the same records, when both logs end at the same place."""
    indexes = []
    for side in (primary, replica):
        index = side.store._index
        while index is not None and index.step():
            pass
        files = [] if index is None else index.files
        indexes.append([file.entry(n)[:2] for file in files for n in range(1, file.header.count)])
    theirs, ours = indexes
    if theirs != ours:
        yield f"the index has {len(ours)} entries, and that of the primary {len(theirs)}; or they differ"
    for key in ("k1", "u7", "k20"):
        if [m.log_offset for m in primary.store.query("orders", key, 64)] != [
            m.log_offset for m in replica.store.query("orders", key, 64)
        ]:
            yield f"{key} finds other messages"
