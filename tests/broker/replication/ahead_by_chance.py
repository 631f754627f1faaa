"""A store under everything that happens to it, and what it has read ahead: equal to what reading from zero gives?

``python -m tests.broker.replication.ahead_by_chance --seed 1 --runs 20`` plays many; a few are in ``test_ahead.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import random
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final
from unittest.mock import patch

from gantrymq.broker.replication import ahead as ahead_module
from gantrymq.broker.replication.ahead import Ahead
from gantrymq.message import flags, properties
from gantrymq.message.system_topics import HALF
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.store.config import StoreConfig
from gantrymq.store.linked_records import LinkedRecords
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord, Placement
from gantrymq.transactions import decisions_ahead
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.decisions_ahead import DecisionsAhead
from gantrymq.transactions.rebuild import rebuild
from gantrymq.transactions.records.half import op_record, with_real_place
from gantrymq.transactions.table.decisions import Cause, Decision
from tests.broker.transaction_lab import HOST

SMALL: Final = {"PIECE_BYTES": 3_000, "NOTE_BYTES": 6_000, "NOTE_LOOKS": 2, "REWRITE_BYTES": 2_000}
"""Pieces, blocks and files of a size that a test reaches."""
ENDS = (Decision.COMMITTED, Decision.ROLLED_BACK, Decision.PARKED)


class Machine:
    """One store under everything that happens to it, and what it has read ahead."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self._root = root
        self.rng = rng
        self._disk = OsDisk()
        self._number = 0
        self._before: list[Path] = []
        """Copies of the store from earlier times."""
        self.from_file = self.kept = 0
        """How often a start found something in the file, and how often it stayed behind a cut."""
        self.open(root / "0")

    def open(self, path: Path) -> None:
        self.path = path
        config = StoreConfig(
            root=str(path), mapped_file_size_commit_log=16384, mapped_file_size_consume_queue=400,
            max_index_num=120, max_hash_slot_num=40,
        )  # fmt: skip
        self.store = MessageStore.open(config, self._disk, SystemClock(), HOST)
        self.ahead = Ahead(self.store, self._disk)
        self.ahead.load()
        self.from_file += self.store.linked.ahead > self.store.min_log_offset
        self.halves: list[Placement] = []

    # ---- what a primary writes

    def write(self) -> None:
        rng = self.rng
        kind = rng.choice(("plain", "plain", "long", "half", "half", "end", "end", "end", "copy"))
        if kind == "plain":
            self._append(_record("t", b"x" * rng.randrange(200)))
        elif kind == "long":
            self._append(_record("t", b"y" * rng.randrange(4_000, 12_000)))
        elif kind == "half":
            text = with_real_place(properties.encode({"PGROUP": "g", "UNIQ_KEY": str(rng.random())}), "t", 0, "k")
            self.halves += self._append(_record(HALF, b"half", text))
        elif kind == "copy":
            self._append(_record("t", b"copy", made_of=1 + rng.randrange(1 + self.store.appended)))
        elif self.halves:
            self._end(rng.choice(self.halves))

    def _end(self, half: Placement) -> None:
        """Sometimes a second time, and sometimes without an op message, or with nothing but one."""
        rng, decision = self.rng, self.rng.choice(ENDS)
        records = []
        if decision is Decision.COMMITTED and rng.random() < 0.9:
            records.append(_record("t", b"half", kind=flags.COMMITTED, made_of=half.log_offset))
        if rng.random() < 0.8 or not records:
            records.append(op_record(half.queue_offset, decision, 1, HOST, Cause.PRODUCER))
        self._append(*records)

    def _append(self, *records: NewRecord) -> list[Placement]:
        return list(self.store.append(records))

    # ---- what happens to it

    async def kill(self, fate: str = "") -> None:
        """The process is killed; the next one finds the files as they are, or something was done to them. ``fate``: of
        the file; empty: by chance."""
        rng = self.rng
        self._number += 1
        left = self._root / str(self._number)
        shutil.copytree(self.path, left)
        await self.store.close()
        file = left / "gantry" / "ahead"
        fate = fate or rng.choice(("nothing", "nothing", "nothing", "torn", "flipped", "gone", "old", "backup"))
        earlier = rng.choice(self._before or [left])
        self._before.append(left)
        if fate == "backup":
            restored = self._root / f"{self._number}-restored"
            shutil.copytree(earlier, restored)
            if file.exists():
                (restored / "gantry").mkdir(exist_ok=True)
                shutil.copy(file, restored / "gantry" / "ahead")
            self._work_on(restored)
            return
        if fate == "old" and earlier != left and (earlier / "gantry" / "ahead").exists():
            shutil.copy(earlier / "gantry" / "ahead", file)
        elif file.exists() and fate == "gone":
            file.unlink()
        elif file.exists() and file.stat().st_size and fate in ("torn", "flipped"):
            data = bytearray(file.read_bytes())
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
            file.write_bytes(data[:at] if fate == "torn" else data)
        self._work_on(left)

    def _work_on(self, left: Path) -> None:
        """On a copy: what is in ``left`` stays as it is."""
        path = self._root / f"{left.name}-{secrets.token_hex(4)}"
        shutil.copytree(left, path)
        self.open(path)

    async def cut(self) -> None:
        """A replica cuts what its primary does not have, and a crash may undo what became of the file meanwhile."""
        store, rng = self.store, self.rng
        await store.flush_everything()
        begins = [record.log_offset for record in store.scan(store.min_log_offset)]
        if not begins:
            return
        file = self.path / "gantry" / "ahead"
        before = file.read_bytes() if file.exists() else None
        store.truncating[:] = [self.ahead.forget]
        store.follow("it is a replica")
        position = rng.choice(begins[-20:]) if rng.random() < 0.8 else rng.choice(begins)
        await store.truncate(position)
        self.kept += store.linked.ahead > store.min_log_offset
        store.lead()
        self.halves = [half for half in self.halves if half.log_offset < position]
        if before is not None and rng.random() < 0.3:
            file.write_bytes(before)
            await self.kill()

    async def step(self) -> None:
        what = self.rng.choice(("write",) * 12 + ("look",) * 6 + ("kill", "cut", "note"))
        if what == "write":
            self.write()
        elif what == "look":
            await self.store.flush_everything()
            self.ahead.look()
        elif what == "note":
            self.ahead.note()
        else:
            await (self.kill() if what == "kill" else self.cut())

    # ---- what is true

    async def judge(self) -> None:
        await self.store.flush_everything()
        store = self.store
        zero = LinkedRecords(store._log, store._dispatch, store._quarantine)
        assert list(store.linked.copies(0)) == list(zero.copies(0))
        assert list(store.linked.finals(0)) == list(zero.finals(0))
        nothing_read = DecisionsAhead(store)
        wanted = rebuild(store, TransactionConfig(), nothing_read.saved(), resolved=False)
        found = rebuild(store, TransactionConfig(), self.ahead.decisions.saved(), resolved=False)
        halves = range(*store.queue_range(HALF, 0))
        decided = [found.table.decisions[at] for at in halves]
        assert decided == [wanted.table.decisions[at] for at in halves]
        assert [half.place for half in found.table] == [half.place for half in wanted.table]
        assert found.missing_ops == wanted.missing_ops


def _record(topic: str, body: bytes, text: str = "", *, kind: int = flags.ORDINARY, made_of: int = 0) -> NewRecord:
    return NewRecord(topic, 0, body, text, 0, HOST, 0, kind, 0, made_of)


async def play(root: Path, seed: int, steps: int) -> Machine:
    machine = Machine(root, random.Random(seed))
    for number in range(steps):
        await machine.step()
        if number % 10 == 0:
            await machine.judge()
    await machine.judge()
    await machine.store.close()
    return machine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.replication.ahead_by_chance", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the first run")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200, help="of each run")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what is said of damaged files fills pages
    failed = from_file = kept = 0
    with contextlib.ExitStack() as patches:
        for name, value in SMALL.items():
            patches.enter_context(patch.object(ahead_module, name, value))
        patches.enter_context(patch.object(decisions_ahead, "OPS_IN_A_PIECE", 3))
        for seed in range(given.seed, given.seed + given.runs):
            with tempfile.TemporaryDirectory() as root:
                try:
                    found = asyncio.run(play(Path(root), seed, given.steps))
                    from_file, kept = from_file + found.from_file, kept + found.kept
                except AssertionError as error:
                    failed += 1
                    print(f"seed {seed}: {error}", flush=True)
    print(f"{given.runs} runs, {failed} failed; {from_file} starts used the file, {kept} cuts left a part of it")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
