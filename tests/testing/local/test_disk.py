"""The disk in memory answers as the machine's does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gantrymq.errors import StoreLocked
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk, OsDisk, read_whole, write_durably
from gantrymq.testing.local.disk import MemoryDisk

Step = Callable[[Disk, str], object]


def written(disk: Disk, root: str) -> object:
    file = disk.open(f"{root}/a", create=True)
    file.write(b"0123456789", 5)
    file.write(b"AB", 6)
    return file.size(), file.read(100, 0), file.read(3, 5), file.read(4, 20)


def truncated(disk: Disk, root: str) -> object:
    file = disk.open(f"{root}/a", create=True)
    file.write(b"0123456789", 0)
    file.truncate(4)
    file.truncate(12)
    file.write(b"x", 8)
    return file.size(), file.read(100, 0)


def listed(disk: Disk, root: str) -> object:
    disk.make_dirs(f"{root}/b/c")
    disk.open(f"{root}/b/file", create=True)
    before = disk.list(f"{root}/b"), disk.list(f"{root}/none"), disk.is_dir(f"{root}/b"), disk.is_dir(f"{root}/b/file")
    disk.remove(f"{root}/b/file")
    disk.remove(f"{root}/b/file")
    disk.remove_dir(f"{root}/b/c")
    return before, disk.list(f"{root}/b"), disk.exists(f"{root}/b/c"), disk.exists(f"{root}/b")


def renamed(disk: Disk, root: str) -> object:
    write_durably(disk, f"{root}/a", b"old")
    write_durably(disk, f"{root}/a", b"new")
    return read_whole(disk, f"{root}/a"), disk.list(root), disk.size(f"{root}/a")


def absent(disk: Disk, root: str) -> object:
    errors = []
    for call in (disk.open, disk.size, disk.modified_ms):
        with pytest.raises(FileNotFoundError) as caught:
            call(f"{root}/none")
        errors.append(caught.type)
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/none/a", create=True)
    return errors


def not_empty(disk: Disk, root: str) -> object:
    disk.make_dirs(f"{root}/b/c")
    with pytest.raises(OSError, match="not empty"):
        disk.remove_dir(f"{root}/b")
    return disk.list(root)


def locked(disk: Disk, root: str) -> object:
    first = disk.lock(f"{root}/lock")
    with pytest.raises(StoreLocked):
        disk.lock(f"{root}/lock")
    first.release()
    disk.lock(f"{root}/lock").release()
    return disk.list(root)


@pytest.mark.parametrize("step", [written, truncated, listed, renamed, absent, not_empty, locked])
def test_it_answers_as_the_machine_does(step: Step, tmp_path: Path) -> None:
    memory = MemoryDisk(SystemClock())
    memory.make_dirs("/memory")
    assert step(memory, "/memory") == step(OsDisk(), str(tmp_path))


def test_a_large_sparse_file_takes_no_memory_behind_its_last_byte() -> None:
    disk = MemoryDisk(SystemClock())
    disk.make_dirs("/memory")
    file = disk.open("/memory/log", create=True)
    file.truncate(1 << 40)
    file.write(b"x", 0)
    assert file.read(5, (1 << 40) - 5) == bytes(5)
    assert file.next_data(0) == 0 and file.next_data(1) is None


def test_locks_of_a_killed_process_are_forgotten() -> None:
    disk = MemoryDisk(SystemClock())
    disk.make_dirs("/memory")
    disk.lock("/memory/lock")
    disk.forget_locks()
    disk.lock("/memory/lock")
