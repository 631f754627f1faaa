"""This version starts on a store that the version before wrote, which is kept as a golden directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.upgrade import contents
from tests.upgrade.contents import judge
from tests.upgrade.run import ROOT, serving, unpack

pytestmark = pytest.mark.slow
LOG = "commitlog/00000000000000000000"


def judged(root: Path) -> dict[str, str]:
    with serving(root, ROOT / "src") as server:
        return judge(server.name_servers)


def test_this_version_starts_on_the_store_of_the_version_before(tmp_path: Path) -> None:
    unpack(tmp_path)
    assert judged(tmp_path) == {}


def lose_files(store: Path) -> None:
    """Offsets and users are gone, topics have no types, and one half message is damaged in the log."""
    (store / "config" / "consumerOffset.json").unlink()
    shutil.rmtree(store / "config" / "auth")
    topics = store / "config" / "topics.json"
    topics.write_text(topics.read_text().replace("FIFO", "NORMAL"))
    overwrite(store / LOG, b"half-1", b"HALF-1")


def lose_the_end_of_the_log(store: Path) -> None:
    """All that follows the messages with keys is gone."""
    log = store / LOG
    begin = log.read_bytes().index(b"half-0")
    with log.open("r+b") as file:
        file.seek(begin)
        file.write(bytes(log.stat().st_size - begin))


def overwrite(file: Path, old: bytes, new: bytes) -> None:
    whole = file.read_bytes()
    assert whole.count(old) == 1
    file.write_bytes(whole.replace(old, new))


@pytest.mark.parametrize(
    "lose, noticed",
    [
        (lose_files, {"the offset of a group", "types of topics", "open half messages", "a user with a policy"}),
        (
            lose_the_end_of_the_log,
            {"open half messages", "a parked half message", "popped messages", "delayed messages"},
        ),
    ],
)
def test_what_an_upgrade_loses_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None], noticed: set[str]
) -> None:
    """The judge can fail: it names what is missing, and nothing else."""
    monkeypatch.setattr(contents, "PATIENCE_S", 1.0)  # what it waits for never comes
    unpack(tmp_path)
    lose(tmp_path / "store")
    found = judged(tmp_path)
    assert found.keys() == noticed, json.dumps(found, indent=1)
