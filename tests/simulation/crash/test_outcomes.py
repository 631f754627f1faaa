"""What a cut may leave: every sector, size and list of names on its own, and nothing that was synced is lost."""

from __future__ import annotations

import asyncio
from itertools import product

from gantrymq.simulation.crash.journal import Cut, Image, JournalDisk
from gantrymq.simulation.crash.outcomes import ALL, Effort, Space, Versions
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.simulation.world.loop import VirtualLoop

SECTOR = 64


def content(image: Image, path: str) -> bytes | None:
    directory, _, name = path.rpartition("/")
    blob = image.directories.get(directory or "/", {}).get(name)
    return None if blob is None else blob.data


def outcomes(disk: JournalDisk, effort: Effort = Effort(all_up_to=10_000)) -> list[Image]:  # noqa: B008
    space = Space(disk.freeze(), Versions(SECTOR))
    return [space.image(choice) for choice in space.choices(effort)]


def watched() -> tuple[JournalDisk, list[Cut]]:
    cuts: list[Cut] = []
    disk = JournalDisk(cuts.append)
    return disk, cuts


def durable_file(disk: JournalDisk, size: int) -> None:
    file = disk.open("/f", create=True)
    file.truncate(size)
    file.sync()
    disk.sync_dir("/")


def test_sectors_of_a_write_arrive_one_without_the_other() -> None:
    disk, cuts = watched()
    durable_file(disk, 3 * SECTOR)
    disk.open("/f").write(b"x" * 100, 60)
    found = {content(image, "/f") for image in outcomes(disk)}
    pieces = (slice(60, 64), slice(64, 128), slice(128, 160))
    wanted = set()
    for kept in product((False, True), repeat=3):
        data = bytearray(3 * SECTOR)
        for piece, there in zip(pieces, kept, strict=True):
            if there:
                data[piece] = b"x" * (piece.stop - piece.start)
        wanted.add(bytes(data))
    assert found == wanted
    assert [cut.number for cut in cuts] == list(range(5)), "a cut before every operation"
    assert disk.freeze().done == "write of 100 bytes at 60 of /f"


def test_a_sector_holds_what_it_held_at_one_moment() -> None:
    """Never the later half of two writes without the earlier one: they are in one page of memory."""
    disk, _ = watched()
    durable_file(disk, SECTOR)
    for number in range(3):
        disk.open("/f").write(bytes([number + 1]) * 4, 4 * number)
    found = {content(image, "/f") for image in outcomes(disk)}
    whole = bytes([1] * 4 + [2] * 4 + [3] * 4)
    assert found == {whole[: 4 * count].ljust(SECTOR, b"\0") for count in range(4)}


def test_a_size_that_did_not_arrive_takes_the_bytes_behind_it_along() -> None:
    disk, _ = watched()
    durable_file(disk, 0)
    disk.open("/f").write(b"abc", 0)
    assert {content(image, "/f") for image in outcomes(disk)} == {b"", b"abc", b"\0\0\0"}


def test_names_arrive_in_order_within_a_directory() -> None:
    disk, _ = watched()
    disk.make_dirs("/d")
    disk.sync_dir("/d")
    for name in "abc":
        disk.open(f"/d/{name}", create=True)
    disk.rename("/d/a", "/d/z")
    found = {"".join(image.directories["/d"]) for image in outcomes(disk)}
    assert found == {"", "a", "ab", "abc", "bcz"}


def test_what_was_synced_is_in_every_outcome_and_a_killed_process_loses_nothing() -> None:
    disk, _ = watched()
    durable_file(disk, SECTOR)
    file = disk.open("/f")
    file.write(b"safe", 0)
    file.sync()
    file.write(b"new!", 8)
    images = outcomes(disk)
    assert all((content(image, "/f") or b"").startswith(b"safe") for image in images)
    space = Space(disk.freeze(), Versions(SECTOR))
    assert content(space.image(space.newest), "/f") == b"safe\0\0\0\0new!".ljust(SECTOR, b"\0")


def test_a_background_sync_covers_what_was_written_when_it_began() -> None:
    disk, _ = watched()
    durable_file(disk, 2 * SECTOR)

    async def overlapping() -> None:
        ended = asyncio.get_running_loop().create_future()
        file = disk.open("/f")
        file.write(b"first", 0)
        disk.sync_later([file], ended.set_result)
        file.write(b"second", SECTOR)
        assert len(outcomes(disk)) == 4
        assert await ended is None

    loop = VirtualLoop()
    loop.run_until_complete(overlapping())
    loop.close()
    assert disk.freeze().done == "sync of /f"
    found = {(content(image, "/f") or b"").replace(b"\0", b"") for image in outcomes(disk)}
    assert found == {b"first", b"firstsecond"}
    disk.open("/f").sync()
    assert len(outcomes(disk)) == 1


def test_a_disk_made_of_an_outcome_holds_it() -> None:
    disk, _ = watched()
    disk.make_dirs("/d/e")
    durable_file(disk, 200)
    disk.open("/f").write(b"x" * 150, 20)
    image = outcomes(disk)[1]
    again = JournalDisk(image=image)
    assert again.is_dir("/d/e") and again.open("/f").read(200, 0) == content(image, "/f")
    assert isinstance(again, SimDisk) and again.open("/f").next_data(0) is not None


def test_too_many_outcomes_are_chosen_from_always_the_same() -> None:
    disk, _ = watched()
    durable_file(disk, 100 * SECTOR)
    for number in range(20):
        disk.open("/f").write(b"x" * 90, number * 90)
    space = Space(disk.freeze(), Versions(SECTOR))
    effort = Effort(all_up_to=8, sampled=5)
    choices = space.choices(effort)
    assert space.combinations > 1 << 25 > len(choices)
    assert ALL not in choices.values() and len(set(choices.values())) == 5
    assert (0,) * len(space.axes) in choices and space.newest in choices
    assert list(choices) == list(Space(disk.freeze(), Versions(SECTOR)).choices(effort))
