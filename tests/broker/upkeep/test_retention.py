"""When log files are deleted, in simulated time and on a simulated disk."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.upkeep.retention import Retention
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.config import StoreConfig
from gantrymq.store.message_store import MessageStore
from tests.store.test_deletion import HOUR_MS, filled
from tests.support.places import open_store, run
from tests.support.sim_clock import SimClock

AT_FOUR = int(datetime(2026, 1, 5, 4, 30).timestamp() * 1000)
AT_FIVE = AT_FOUR + HOUR_MS


class Clock(SimClock):
    """A clock with the time that the test sets."""

    wall = AT_FIVE

    def wall_ms(self) -> int:
        return self.wall


async def look(
    wall_ms: int, used_percent: int, age_hours: float, keep: int | None = None, reserved: int = 0, **settings: object
) -> tuple[int, MessageStore, list[int]]:
    """How many bytes of the log went; the files were last written ``age_hours`` before.

    ``reserved``: percent of the disk, beyond ``used_percent`` of the rest, that only the superuser may write.
    """
    disk, clock = SimDisk(), Clock()
    store, placed = await filled(disk, SimClock())
    disk.total_bytes, disk.used_bytes, disk.reserved_bytes = 1000, used_percent * (100 - reserved) // 10, reserved * 10
    clock.wall = wall_ms
    disk.now_ms = wall_ms - int(age_hours * HOUR_MS)
    for path in [f"/data/store/commitlog/{name}" for name in disk.list("/data/store/commitlog")]:
        file = disk.open(path)
        file.write(b"\0", 16383)
        file.close()
    config = LiveConfig(BrokerConfig.of(store_path_root_dir="/data/store", **settings))
    kept = None if keep is None else placed[keep].log_offset
    Retention(config, store, clock, lambda: kept).run()
    return store.min_log_offset, store, [place.log_offset for place in placed]


@pytest.mark.parametrize(
    ("wall_ms", "used", "age", "settings", "goes"),
    [
        (AT_FOUR, 10, 73, {}, True),
        (AT_FOUR, 10, 71, {}, False),
        (AT_FOUR, 10, 73, {"file_reserved_time": 100}, False),
        (AT_FIVE, 10, 73, {}, False),
        (AT_FIVE, 10, 73, {"delete_when": "04;05"}, True),
        (AT_FIVE, 76, 73, {}, True),
        (AT_FIVE, 76, 73, {"disk_max_used_space_ratio": 80}, False),
        (AT_FIVE, 76, 1, {}, False),
        (AT_FIVE, 86, 1, {}, True),
        (AT_FIVE, 86, 1, {"clean_file_forcibly_enable": False}, False),
        (AT_FIVE, 86, 1, {"disk_space_clean_forcibly_ratio": 90}, False),
    ],
)
def test_when_files_go(wall_ms: int, used: int, age: float, settings: dict[str, object], goes: bool) -> None:
    async def scenario() -> None:
        start, store, _ = await look(wall_ms, used, age, **settings)
        assert (start > 0) is goes
        await store.close()

    run(scenario())


@pytest.mark.parametrize(("wall_ms", "used"), [(AT_FOUR, 10), (AT_FIVE, 76), (AT_FIVE, 99)])
def test_an_open_half_is_never_passed(wall_ms: int, used: int) -> None:
    async def scenario() -> None:
        start, store, places = await look(wall_ms, used, 1000, keep=100)
        assert 0 < start <= places[100] < start + 16384
        assert store.read(places[100]) is not None
        await store.close()

    run(scenario())


@pytest.mark.parametrize(
    ("used", "age", "goes"), [(74, 73, False), (76, 73, True), (84, 1, False), (86, 1, True), (89, 1, True)]
)
def test_space_reserved_for_the_superuser_counts_as_neither_used_nor_free(used: int, age: float, goes: bool) -> None:
    async def scenario() -> None:
        # 20 % reserved: of all blocks 60 to 71 % are in use, of those that a broker can have the percent that is given.
        start, store, _ = await look(AT_FIVE, used, age, reserved=20)
        assert (start > 0) is goes
        await store.close()

    run(scenario())


def test_room_is_made_before_writes_are_refused_whatever_is_reserved() -> None:
    """By the one measure of a disk, deletion begins at a lower number than refusal: on every volume."""

    async def scenario() -> None:
        for reserved in (0, 5, 20, 50):
            for used in range(86, 91):
                start, store, _ = await look(AT_FIVE, used, 1, reserved=reserved)
                assert start > 0 and store.refusal is None
                await store.close()

    run(scenario())


def test_a_new_broker_has_no_directory_of_the_log_yet_and_its_disk_is_measured(tmp_path: Path) -> None:
    """Seen as an ERROR a minute in the log of a new broker until its first message."""

    async def scenario() -> None:
        config = LiveConfig(
            BrokerConfig.of(store_path_root_dir=str(tmp_path), store_path_commit_log=str(tmp_path / "disk-2" / "log"))
        )
        disk, clock = OsDisk(), SystemClock()
        store = open_store(
            StoreConfig(root=str(tmp_path), log_directory=config.store.store_path_commit_log), disk, clock
        )
        Retention(config, store, clock, lambda: None).run()
        assert 0 <= store.space.fullest()[1] <= 1
        await store.close()

    run(scenario())
