"""Looking at this machine: packages, and directories with real owners, modes and file systems."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq import __version__
from gantrymq.doctor.facts import Extra
from gantrymq.doctor.machine import extras_in, look_at_machine, look_at_store, unmet_in
from gantrymq.runtime.directory_state import kind_in

NEEDS = (
    "msgspec>=0.19", "uvloop>=0.20; sys_platform != 'win32'", "pywin32>=300; sys_platform == 'win32'",
    "lz4>=4; extra == 'compression'", "zstandard>=0.22; extra == 'compression'", "gantrymq[spark]; extra == 'all'",
    "django>=4.2; extra == 'django'",
)  # fmt: skip
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="changing owners and mounting need root")


def test_this_machine_is_complete() -> None:
    here = look_at_machine()
    assert here.version == __version__ and here.user and here.open_files > 0
    assert here.python.endswith(f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}")
    assert not here.unmet


def test_extras_and_what_they_lack() -> None:
    installed = {"msgspec": "0.20", "lz4": "4.3"}
    assert extras_in(NEEDS, installed.get) == (Extra("compression", ("zstandard",)), Extra("django", ("django",)))


def test_packages_of_the_wrong_version() -> None:
    installed = {"msgspec": "0.18.6", "uvloop": "0.21", "django": "3.2", "lz4": "4.0rc1"}
    assert unmet_in(NEEDS, installed.get) == (
        "msgspec 0.18.6 (allowed: >=0.19)", "lz4 4.0rc1 (allowed: >=4)", "django 3.2 (allowed: >=4.2)",
    )  # fmt: skip
    assert unmet_in(NEEDS, {"msgspec": "1.0"}.get) == ("uvloop is missing",)


def test_a_directory_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    assert look_at_store(str(tmp_path / "none")).exists is False
    (tmp_path / "file").touch()
    assert look_at_store(str(tmp_path / "file")).is_directory is False
    assert look_at_store(str(tmp_path / "file" / "below")).exists is False


def test_an_ordinary_store(tmp_path: Path) -> None:
    users = tmp_path / "config" / "auth" / "users.json"
    users.parent.mkdir(parents=True)
    users.touch(0o600)
    store = look_at_store(str(tmp_path), "broker-a")
    assert store.writable and not store.read_only and store.broker == "broker-a" and not store.exposed
    assert len(store.owners) == 1 and store.free_bytes > 0 and 0 <= store.used <= 1 and store.file_system
    users.chmod(0o644)
    tmp_path.chmod(0o777)
    store = look_at_store(str(tmp_path))
    assert store.exposed == (str(users),) and store.mode == 0o777


@ROOT_ONLY
def test_files_of_several_owners(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()
    os.chown(tmp_path / "checkpoint", 12345, -1)
    assert "uid 12345" in look_at_store(str(tmp_path)).owners


def looked_from_inside(before: str, path: Path, *, user: int = 0) -> dict[str, object]:
    """What is seen in a namespace of mounts of its own, in which ``before`` was done; skips where there can be none."""
    tried = subprocess.run(["unshare", "--mount", "sh", "-c", before, str(path)], capture_output=True, check=False)
    if shutil.which("unshare") is None or tried.returncode != 0:
        pytest.skip("nothing can be mounted here")
    code = (
        "import json, os, sys, dataclasses; from gantrymq.doctor.machine import look_at_store; "
        f"os.setuid({user}); print(json.dumps(dataclasses.asdict(look_at_store(sys.argv[1]))))"
    )
    words = ["unshare", "--mount", "sh", "-c", f'{before} && exec "$@"', str(path), sys.executable, "-c", code]
    seen = subprocess.run([*words, str(path)], capture_output=True, text=True, check=False, timeout=120)
    assert seen.returncode == 0, seen.stderr
    found: dict[str, object] = json.loads(seen.stdout)
    return found


@ROOT_ONLY
@pytest.mark.slow
def test_file_systems_in_memory_read_only_full_and_without_room_for_files(tmp_path: Path) -> None:
    seen = looked_from_inside(
        'mount -t tmpfs -o size=1m,nr_inodes=5 none "$0" && head -c 990000 /dev/zero > "$0/f"', tmp_path
    )
    assert seen["file_system"] == "tmpfs" and float(str(seen["used"])) > 0.9 and int(str(seen["free_files"])) < 5
    seen = looked_from_inside('mount -t tmpfs -o ro none "$0"', tmp_path)
    assert seen["read_only"] is True


@ROOT_ONLY
@pytest.mark.slow
def test_another_user_may_not_write_or_not_even_look(tmp_path: Path) -> None:
    mounted = "mount -t tmpfs none /srv && mkdir /srv/store"
    assert looked_from_inside(mounted, Path("/srv/store"), user=12345)["writable"] is False
    closed = looked_from_inside(f"{mounted} && chmod 700 /srv", Path("/srv/store"), user=12345)
    assert closed["error"] == "Permission denied"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/srv", "ext4"),
        ("/srv/a b/store", "xfs"),
        ("/srv/a bc", "ext4"),
        ("/var/lib/x", "overlay"),
        ("/größe/store", "zfs"),
    ],
)
def test_the_nearest_mount_above_counts(path: str, kind: str) -> None:
    mounts = [
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw", r"2 1 8:2 / /srv/a\040b rw shared:1 - xfs /dev/sdb rw",
        "3 1 0:3 / /var rw - btrfs none rw", "4 1 0:4 / /var rw - overlay overlay rw", "nonsense", "",
        "5 1 0:5 / /größe rw - zfs pool rw",
    ]  # fmt: skip
    assert kind_in(mounts, path) == kind
