"""A damaged file that says what a broker is in its group is named with what to do, at every byte of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gantrymq.broker.replication.election.controller.calls import GroupName
from gantrymq.broker.replication.election.controller.identity import number_of
from gantrymq.broker.replication.election.disk_identity import disk_identity
from gantrymq.broker.replication.epochs import Epochs
from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.rng import SystemRng


class GivesOne:
    """Apache's controller, as far as a broker asks it for a number."""

    group = GroupName("DefaultCluster", "broker-a")

    async def next_broker_id(self) -> int:
        return 7

    async def apply_broker_id(self, number: int, check_code: str) -> bool:
        return number == 7 and check_code == "mine"


def epochs(path: str) -> object:
    own = Epochs(OsDisk(), path)
    if not own.entries:
        own.begin(3, 500, 100)
    return own.entries


def identity(path: str) -> object:
    return disk_identity(OsDisk(), path, SystemRng(), boot="now", keeps=True)


def number(path: str) -> object:
    return asyncio.run(number_of(GivesOne(), OsDisk(), path, 42, "mine"))  # type: ignore[arg-type]


@pytest.mark.parametrize("read", [epochs, identity, number])
def test_a_damaged_file_is_named_and_never_taken_for_a_missing_one(
    tmp_path: Path, read: Callable[[str], object]
) -> None:
    file = tmp_path / "gantry"
    value = read(str(file))
    whole = file.read_bytes()
    assert read(str(file)) == value
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=f"{file} cannot be read: .*; move it away: .* then"):
            read(str(file))
        assert file.read_bytes() == whole[:length], "it stays as it was found"
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        with pytest.raises(ConfigError, match="move it away"):
            read(str(file))
