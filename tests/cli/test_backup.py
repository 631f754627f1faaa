"""``gantry backup`` and ``gantry restore``: what they print, their exit statuses, and how they end when interrupted."""

from __future__ import annotations

import random
import secrets
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.backup.scene import Scene, flipped, objects
from tests.backup.test_store import filled
from tests.cli.tool import Tool
from tests.support.places import durable, open_store, record, run, small
from tests.support.tied import tied


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path)

    async def work() -> None:
        await (await filled(scene, 50)).close()

    run(work())
    return scene


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool("127.0.0.1:1", tmp_path / "audit")


def test_a_backup_its_list_its_check_and_its_restore(scene: Scene, tool: Tool) -> None:
    to = str(scene.backups)
    said = tool.text("backup", "--store", str(scene.store), "--to", to)
    assert said.startswith("backup 2") and "50 records up to 2" in said and " bytes were new" in said
    name = said.split()[1]
    listed = tool.json("backup", "list", to)
    assert [one["id"] for one in listed["backups"]] == [name]
    assert name in tool.text("backup", "list", to)
    assert tool.text("backup", "verify", to) == "1 backup read, all whole\n"
    made = tool.text("restore", "--from", to, "--store", str(scene.root / "restored"))
    assert "restored 50 records up to 2" in made and f"backup {name}" in made
    assert f"storePathRootDir={scene.root / 'restored'}" in made
    assert scene.log("restored") == scene.log()
    again = tool.json("restore", "--from", f"file://{to}", "--store", str(scene.root / "second"), "--backup", name)
    assert (again["records"], again["positions_of"], again["lowered_positions"]) == (50, name, 0)


def test_what_is_wrong_is_said_in_one_sentence(scene: Scene, tool: Tool) -> None:
    to = str(scene.backups)
    assert "give --store and --to" in tool.fails("backup", "--store", str(scene.store), status=2)
    assert "is not the directory of a store" in tool.fails("backup", "--store", str(scene.root), "--to", to)
    tool.text("backup", "--store", str(scene.store), "--to", to)
    assert "--at 'noon' is not a time" in tool.fails("restore", "--from", to, "--store", "x", "--at", "noon", status=2)
    both = ("--at", "2026-01-01", "--backup", "b")
    assert "not both" in tool.fails("restore", "--from", to, "--store", "x", *both, status=2)
    assert "is not empty" in tool.fails("restore", "--from", to, "--store", str(scene.store))
    new = str(scene.root / "new")
    assert "there is no backup b in" in tool.fails("restore", "--from", to, "--store", new, "--backup", "b")
    late = (datetime.now() + timedelta(days=1)).isoformat()
    assert "the newest backup is of" in tool.fails("restore", "--from", to, "--store", new, "--at", late)
    assert "the first backup is of" in tool.fails("restore", "--from", to, "--store", new, "--at", "2001-01-01")
    assert "is not the URL of an object store" in tool.fails("backup", "list", "nowhere://localhost", status=2)


def test_damage_has_exit_status_1(scene: Scene, tool: Tool) -> None:
    to = str(scene.backups)
    assert tool.run("backup", "verify", to)[0] == 1, "there is none"
    tool.text("backup", "--store", str(scene.store), "--to", to)
    part = next(file for file in objects(scene) if file.parent.name == "log")
    with flipped(part, 100):
        status, out, _ = tool.run("backup", "verify", to)
        assert status == 1 and "its bytes are not those that were stored" in out and "1 of 1 backup damaged" in out
        said = tool.fails("restore", "--from", to, "--store", str(scene.root / "new"))
        assert f"log/{part.name} in {to} is damaged" in said
    manifest = next(file for file in objects(scene) if file.parent.name == "backups")
    with flipped(manifest, 100):
        status, out, err = tool.run("backup", "list", to)
        assert status == 1 and "is damaged" in err and "no backup is there" in out
    assert tool.text("backup", "verify", to)


def test_old_backups_are_deleted_when_somebody_agrees(scene: Scene, tool: Tool) -> None:
    to = str(scene.backups)
    assert "there is no backup in" in tool.fails("backup", "prune", to, "--older-than", "0s", "--yes")
    assert not scene.backups.exists()
    for _ in range(2):
        tool.text("backup", "--store", str(scene.store), "--to", to)
        time.sleep(0.005)
    assert "--older-than 'x'" in tool.fails("backup", "prune", to, "--older-than", "x", status=2)
    assert tool.text("backup", "prune", to, "--older-than", "0s", "--dry-run").startswith("1 backup with 0 bytes would")
    assert "nobody can be asked here" in tool.fails("backup", "prune", to, "--older-than", "0s", status=2)
    assert len(tool.json("backup", "list", to)["backups"]) == 2
    assert tool.json("backup", "prune", to, "--older-than", "0s", "--yes")["bytes"] == 0
    assert len(tool.json("backup", "list", to)["backups"]) == 1
    assert tool.text("backup", "verify", to) == "1 backup read, all whole\n"


ENDS = (0, 130, -signal.SIGKILL, -signal.SIGINT)
"""Done, interrupted, killed; and interrupted before Python listens, or when it does so no longer."""


@pytest.mark.kill
def test_a_backup_that_is_interrupted_or_killed(tmp_path: Path, tool: Tool) -> None:
    """Whenever it ends: what is in the target is whole, and the next one goes on."""
    seed = secrets.randbelow(1 << 32)
    rng = random.Random(seed)
    print(f"seed {seed}")
    scene = Scene(tmp_path)
    to = str(scene.backups)

    async def grow(count: int) -> None:
        store = open_store(small(scene.store, mapped_file_size_commit_log=1 << 20))
        for _ in range(count):
            await durable(store, store.append([record(body=rng.randbytes(100_000)) for _ in range(9)]))
        await store.close()

    statuses = []
    for _ in range(8):
        run(grow(12))
        command = [sys.executable, "-m", "gantrymq.cli.main", "backup", "--store", str(scene.store), "--to", to]
        begun = subprocess.Popen(tied(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        folder = scene.backups / "log"
        before = len(list(folder.iterdir())) if folder.exists() else 0
        while begun.poll() is None and (not folder.exists() or len(list(folder.iterdir())) <= before):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)
        begun.send_signal(rng.choice((signal.SIGINT, signal.SIGKILL)))
        out, err = begun.communicate()
        statuses.append(begun.returncode)
        assert b"Traceback" not in err and begun.returncode in ENDS, (out, err)
        assert scene.problems() == []
    print(f"exit statuses {statuses}")
    tool.text("backup", "--store", str(scene.store), "--to", to)
    tool.text("backup", "verify", to)
    tool.text("restore", "--from", to, "--store", str(scene.root / "restored"))
    assert scene.log("restored") == scene.log()
