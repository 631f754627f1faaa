"""What is read ahead and kept over restarts is what reading the log from its beginning gives, whatever happens."""

from __future__ import annotations

import asyncio
import random
import secrets
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.replication import ahead as ahead_module
from gantrymq.broker.replication.ahead import Ahead
from gantrymq.broker.replication.ahead_file import Block, decode_blocks, encode_block
from gantrymq.errors import RemoteProtocolError
from gantrymq.runtime.disk import OsDisk
from gantrymq.store.linked_records import Links, Pointers
from tests.broker.replication.ahead_by_chance import SMALL, Machine, play

pytestmark = pytest.mark.pure("its limits are constants of the core")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(ahead_module, name, value)
    monkeypatch.setattr("gantrymq.transactions.decisions_ahead.OPS_IN_A_PIECE", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_it_is_what_reading_from_the_beginning_gives(tmp_path: Path) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    found = [asyncio.run(play(tmp_path / str(number), seed + number, 120)) for number in range(2)]
    assert sum(one.from_file for one in found) > 0, "the file was never of use"
    assert sum(one.kept for one in found) > 0, "no cut left anything"


def with_store(root: Path, test: Callable[[Machine], Any]) -> None:
    """A store with some hundred records that was read ahead, and killed and opened again as it was."""

    async def run() -> None:
        machine = Machine(root, random.Random(3))
        for _ in range(300):
            machine.write()
        await machine.store.flush_everything()
        while machine.store.linked.ahead < machine.store.max_log_offset or not machine.ahead.is_done:
            machine.ahead.look()
        machine.ahead.note()
        await test(machine)
        await machine.store.close()

    asyncio.run(run())


@pytest.mark.usefixtures("small")
def test_a_start_goes_on_where_it_was_and_reads_nothing_again(tmp_path: Path) -> None:
    async def test(machine: Machine) -> None:
        end = machine.store.max_log_offset
        await machine.kill("nothing")
        assert machine.store.linked.ahead == end > 100_000
        assert machine.ahead.is_done
        await machine.judge()

    with_store(tmp_path, test)


def test_a_log_that_does_not_grow_is_looked_at_less_often_and_noted_as_soon(tmp_path: Path) -> None:
    async def test(machine: Machine) -> None:
        idle = machine.ahead.look()
        assert machine.ahead.look() == idle == ahead_module.AHEAD_SECONDS * ahead_module.IDLE_LOOKS
        noted = (machine.path / "gantry" / "ahead").stat().st_size
        machine.write()
        await machine.store.flush_everything()
        assert machine.ahead.look() == ahead_module.AHEAD_SECONDS
        waited = ahead_module.AHEAD_SECONDS
        while (machine.path / "gantry" / "ahead").stat().st_size == noted:
            waited += machine.ahead.look()
            assert waited < (ahead_module.NOTE_LOOKS + ahead_module.IDLE_LOOKS) * ahead_module.AHEAD_SECONDS

    with_store(tmp_path, test)


@pytest.mark.usefixtures("small")
def test_a_cut_of_what_nobody_had_confirmed_forgets_nothing(tmp_path: Path) -> None:
    async def test(machine: Machine) -> None:
        store = machine.store
        end = store.max_log_offset
        store.truncating[:] = [machine.ahead.forget]
        store.follow("it is a replica")
        await store.truncate(end)
        assert store.linked.ahead == end
        machine.ahead.forget(end - 1)
        assert end - 20_000 < store.linked.ahead < end, "the blocks before the cut count"

    with_store(tmp_path, test)


@pytest.mark.usefixtures("small")
def test_a_file_that_cannot_be_used_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(machine: Machine) -> None:
        file = machine.path / "gantry" / "ahead"
        good = file.read_bytes()
        for damaged, words in (
            (b"", "nothing about this log"),
            (good[:100], "torn or damaged"),
            (b"X" + good[1:], "another version"),
            (encode_block(Block(0, 9, 1, b"0" * 16, 0, Links(*_nothing()), ())), "nothing about this log"),
        ):
            file.write_bytes(damaged)
            caplog.clear()
            fresh = Ahead(machine.store, OsDisk())
            fresh.load()
            assert words in caplog.text and "read ahead from its beginning" in caplog.text
            assert machine.store.linked.ahead == 0
            await machine.judge()
            assert not file.exists(), "it might seem to fit later"

    with_store(tmp_path, test)


def _nothing() -> tuple[Pointers, Pointers]:
    return Pointers(array("q"), array("q")), Pointers(array("q"), array("q"))


def test_every_damaged_byte_of_a_block_is_noticed() -> None:
    pointers = Pointers(array("q", [5, 1 << 40]), array("q", [3, -1]))
    block = Block(
        7, 1 << 41, 1 << 40, bytes(range(16)), 12, Links(pointers, _nothing()[0]), [(4, b"\x08\x0c"), (9, b"")]
    )
    data = encode_block(block)
    assert [found for found, _ in decode_blocks(data)] == [block]
    for at in range(len(data)):
        for damaged in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data[:at]):
            if not damaged:
                continue
            with pytest.raises(RemoteProtocolError):
                list(decode_blocks(damaged))
