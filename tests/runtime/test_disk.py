"""The real disk and the simulated one keep the same promises."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gantrymq.errors import DiskFull, StoreError, StoreLocked, StoreUnavailable, TooManyOpenFiles
from gantrymq.runtime.disk import Disk, OsDisk, Usage, read_whole, write_durably
from gantrymq.runtime.os_files import OsFile
from gantrymq.simulation.world.disk import SimDisk


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, str]]:
    disk: Disk = OsDisk() if request.param == "real" else SimDisk()
    root = str(tmp_path)
    disk.make_dirs(root)
    yield disk, root
    disk.close()


def test_bytes_are_read_where_they_were_written(place: tuple[Disk, str]) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a")
    file = disk.open(f"{root}/a", create=True)
    file.write(b"hello", 3)
    assert (file.size(), file.read(100, 0), file.read(2, 4), file.read(9, 8)) == (8, b"\0\0\0hello", b"el", b"")
    file.truncate(4)
    assert file.read(100, 0) == b"\0\0\0h"
    file.truncate(1000)
    assert file.size() == disk.size(f"{root}/a") == 1000 and file.read(4, 996) == bytes(4)
    file.close()
    assert disk.open(f"{root}/a").read(1, 3) == b"h"  # open without create keeps the content
    assert read_whole(disk, f"{root}/a")[:4] == b"\0\0\0h"


def test_holes_are_skipped_but_no_data(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.truncate(1 << 20)
    assert file.next_data(0) in (None, 0)
    file.write(b"x", 600_000)
    first = file.next_data(0)
    assert first is not None and first <= 600_000
    assert file.next_data(600_000) == 600_000
    behind = file.next_data(700_000)
    assert behind is None or behind >= 700_000


def test_directories_and_names(place: tuple[Disk, str]) -> None:
    disk, root = place
    assert disk.list(f"{root}/none") == [] and not disk.exists(f"{root}/d/e") and not disk.is_dir(f"{root}/d")
    disk.make_dirs(f"{root}/d/e")
    disk.make_dirs(f"{root}/d/e")
    disk.make_dirs(f"{root}/d/f", durable=False)
    for name in "ba":
        disk.open(f"{root}/d/{name}", create=True).close()
    assert disk.list(f"{root}/d") == ["a", "b", "e", "f"]
    assert disk.is_dir(f"{root}/d/e") and disk.exists(f"{root}/d/e") and not disk.is_dir(f"{root}/d/a")
    disk.rename(f"{root}/d/a", f"{root}/d/b")
    disk.remove(f"{root}/d/a")
    disk.remove_dir(f"{root}/d/e")
    disk.remove_dir(f"{root}/d/e")
    disk.sync_dir(f"{root}/d")
    assert disk.list(f"{root}/d") == ["b", "f"]
    disk.remove(f"{root}/d/b")
    with pytest.raises(FileNotFoundError):
        disk.size(f"{root}/d/b")
    with pytest.raises(OSError, match="empty"):
        disk.remove_dir(f"{root}/d")


def test_replacing_a_file(place: tuple[Disk, str]) -> None:
    disk, root = place
    for data in (b"first, long", b"second"):
        write_durably(disk, f"{root}/a", data)
        assert read_whole(disk, f"{root}/a") == data
    assert disk.list(root) == ["a"]


def test_a_lock_is_released(place: tuple[Disk, str]) -> None:
    disk, root = place
    lock = disk.lock(f"{root}/lock")
    assert read_whole(disk, f"{root}/lock") == b"lock"
    lock.release()
    lock.release()
    disk.lock(f"{root}/lock").release()


def test_usage_adds_up(place: tuple[Disk, str]) -> None:
    disk, root = place
    usage = disk.usage(root)
    assert 0 <= usage.used <= usage.total and 0 < usage.free <= usage.total
    assert 0 <= usage.fullness < 1
    assert disk.usage(f"{root}/not/there/yet").total == usage.total  # where it will be, once it is made
    disk.open(f"{root}/a", create=True).close()
    assert disk.modified_ms(f"{root}/a") > 1_600_000_000_000


def test_background_syncs_answer_on_the_loop_and_in_order(place: tuple[Disk, str]) -> None:
    disk, root = place

    async def scenario() -> list[object]:
        answers: list[object] = []
        last = asyncio.Event()
        files = [disk.open(f"{root}/{name}", create=True) for name in "ab"]
        disk.sync_later(files, answers.append)
        disk.sync_later([], answers.append)
        disk.sync_later(files[:1], lambda error: (answers.append("third"), last.set())[0])
        assert answers == []  # never at once
        await last.wait()
        return answers

    assert asyncio.run(scenario()) == [None, None, "third"]


def test_a_failed_background_sync_is_reported(place: tuple[Disk, str]) -> None:
    disk, _root = place

    class Broken:
        def sync(self) -> None:
            raise OSError(5, "Input/output error")

    async def scenario() -> object:
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        disk.sync_later([Broken()], answer.set_result)
        return await answer

    assert isinstance(asyncio.run(scenario()), OSError)


@pytest.mark.parametrize("way", ["closed meanwhile", "a defect"])
def test_a_background_sync_that_cannot_work_is_no_end_of_all_others(place: tuple[Disk, str], way: str) -> None:
    """A file was closed while the disk was slow: its sync raised what nobody expected, and ended the thread. Nothing
    was acknowledged any more, and nothing was said."""
    disk, root = place

    class Broken:
        def sync(self) -> None:
            raise ValueError("a defect")

    async def scenario() -> list[object]:
        file = disk.open(f"{root}/a", create=True)
        answers: list[object] = []
        last = asyncio.Event()
        disk.sync_later([file if way == "closed meanwhile" else Broken()], answers.append)
        file.close()
        disk.sync_later([], lambda error: (answers.append(error), last.set())[0])
        async with asyncio.timeout(10):
            await last.wait()
        return answers

    first, second = asyncio.run(scenario())
    assert second is None
    if way == "a defect":
        assert isinstance(first, ValueError)
    else:  # the thread may have been faster
        assert first is None or (isinstance(first, StoreError) and "was closed before it was synced" in str(first))


def test_a_file_that_is_closed_while_it_is_synced_is_synced_and_closed_behind_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor ended at once. The sync failed, or it was one of the file that got the same number."""
    first, second = (OsDisk().open(str(tmp_path / name), create=True) for name in "ab")
    begun, go_on, synced = threading.Event(), threading.Event(), []

    def slow(descriptor: int) -> None:
        begun.set()
        assert go_on.wait(10)
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fdatasync", slow)
    with ThreadPoolExecutor() as threads:
        syncing = threads.submit(first.sync)
        assert begun.wait(10)
        first.close()
        with pytest.raises((OSError, StoreError)):
            first.write(b"x", 0)
        with pytest.raises(StoreError, match="was closed before it was synced"):
            first.sync()
        third = OsDisk().open(str(tmp_path / "c"), create=True)
        go_on.set()
        syncing.result(10)
    assert synced == [str(tmp_path / "a")]
    assert str(tmp_path / "a") not in map(_target, os.listdir("/proc/self/fd"))
    for file in (second, third):
        file.close()


def _target(descriptor: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        return os.readlink(f"/proc/self/fd/{descriptor}")
    return ""


def test_a_closed_file_cannot_be_synced(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    file.close()
    with pytest.raises(StoreError, match="a was closed before it was synced"):
        file.sync()


def test_two_holders_of_one_lock(place: tuple[Disk, str]) -> None:
    disk, root = place
    held = disk.lock(f"{root}/lock")
    with pytest.raises(StoreLocked, match="another process"):
        disk.lock(f"{root}/lock")
    held.release()
    disk.lock(f"{root}/lock").release()


def test_a_record_lock_of_another_process_is_respected(tmp_path: Path) -> None:
    """The kind of lock that Java takes."""
    path = tmp_path / "lock"
    path.touch()
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked):
            OsDisk().lock(str(path))
        other.communicate()
    OsDisk().lock(str(path)).release()


# What only the simulation can show


def test_a_power_cut_keeps_what_was_synced_and_tears_the_rest() -> None:
    results = set()
    for seed in range(200):
        disk = SimDisk(seed)
        file = disk.open("/a", create=True)
        file.truncate(512)
        file.write(b"s" * 128, 0)
        file.sync()
        disk.sync_dir("/")
        file.write(b"u" * 256, 64)
        after = disk.power_cut().open("/a").read(512, 0)
        assert after[:64] == b"s" * 64 and len(after) == 512
        results.add(after)
    assert len(results) > 5
    assert b"s" * 128 + bytes(384) in results and b"s" * 64 + b"u" * 256 + bytes(192) in results


def test_a_name_that_was_not_synced_may_be_gone() -> None:
    there = set()
    for seed in range(50):
        disk = SimDisk(seed)
        disk.open("/a", create=True).sync()
        there.add(disk.power_cut().exists("/a"))
    assert there == {True, False}


def test_a_full_disk_takes_a_part() -> None:
    disk = SimDisk()
    disk.free_bytes = 128
    file = disk.open("/a", create=True)
    with pytest.raises(DiskFull):
        file.write(b"x" * 300, 0)
    assert file.read(300, 0) == b"x" * 128
    file.write(b"y" * 128, 0)  # what is there can be overwritten
    disk.free_bytes = 1000
    file.write(b"x" * 300, 0)


def test_a_file_that_nobody_holds_any_more_keeps_no_descriptor(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "forgotten"), create=True)
    assert isinstance(file, OsFile)
    descriptor = file._fd
    os.fstat(descriptor)
    del file
    gc.collect()
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_fullness_is_what_df_shows() -> None:
    """Of 100 blocks 10 are the superuser's: 45 of the 90 that are left are half of them."""
    assert Usage(total=100, used=45, free=45).fullness == 0.5
    assert Usage(total=100, used=90, free=0).fullness == 1.0
    assert Usage(total=0, used=0, free=0).fullness == 0.0  # a file system that does not say


REFUSALS = [
    (errno.ENOSPC, DiskFull, "free space"),
    (errno.EDQUOT, DiskFull, "free space"),
    (errno.EMFILE, TooManyOpenFiles, "ulimit -n"),
    (errno.ENFILE, TooManyOpenFiles, "ulimit -n"),
    (errno.EACCES, StoreUnavailable, "right"),
    (errno.EPERM, StoreUnavailable, "right"),
    (errno.EROFS, StoreUnavailable, "read only"),
    (errno.EIO, StoreError, "Input/output error"),
]
"""An error of the system, the error that it becomes, and a word of the advice in its message."""
CALLS = {
    "open": ("open", lambda disk, root: disk.open(f"{root}/a", create=True)),
    "make_dirs": ("mkdir", lambda disk, root: disk.make_dirs(f"{root}/b/c")),
    "rename": ("replace", lambda disk, root: disk.rename(f"{root}/file", f"{root}/b")),
    "sync_dir": ("fsync", lambda disk, root: disk.sync_dir(root)),
    "open_dir": ("open", lambda disk, root: disk.open_dir(root)),
    "lock": ("open", lambda disk, root: disk.lock(f"{root}/lock")),
    "truncate": ("ftruncate", lambda disk, root: disk.open(f"{root}/file").truncate(5)),
    "sync": ("fdatasync", lambda disk, root: disk.open(f"{root}/file").sync()),
    "write": ("pwrite", lambda disk, root: disk.open(f"{root}/file").write(b"x", 0)),
    "write_durably": ("open", lambda disk, root: write_durably(disk, f"{root}/file", b"new")),
}


@pytest.mark.parametrize(("number", "kind", "word"), REFUSALS)
@pytest.mark.parametrize("call", sorted(CALLS))
def test_what_the_system_refuses_becomes_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[StoreError], word: str
) -> None:
    name, work = CALLS[call]
    root = str(tmp_path)
    (tmp_path / "file").write_bytes(b"old")
    real = getattr(os, name)

    def refuse(*arguments: object, **more: object) -> object:
        if call in ("truncate", "sync", "write") or name != "open" or refusing:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **more)

    refusing = call not in ("truncate", "sync", "write")
    monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(Path, "mkdir", lambda self, **_: refuse())
    with pytest.raises(kind, match=word) as reported:
        work(OsDisk(), root)
    assert root in str(reported.value), "it says which file"
    assert (tmp_path / "file").read_bytes() == b"old"
    assert sorted(os.listdir(root)) == ["file"], "nothing half-made stays"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("fails_at", range(8))
def test_a_file_that_could_not_be_replaced_is_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int, number: int
) -> None:
    """Whichever step fails, but the last: behind the rename only the directory is synced, and it is held."""
    write_durably(OsDisk(), str(tmp_path / "file"), b"old")
    count = 0

    def counted(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **more: object) -> object:
            nonlocal count
            count += 1
            if count - 1 == fails_at:
                raise OSError(number, os.strerror(number))
            return real(*arguments, **more)

        monkeypatch.setattr(os, name, call)

    for name in ("open", "ftruncate", "pwrite", "fdatasync", "replace"):
        counted(name)
    try:
        write_durably(OsDisk(), str(tmp_path / "file"), b"new")
    except StoreError:
        assert (tmp_path / "file").read_bytes() == b"old"
    else:
        assert fails_at >= count and (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]
