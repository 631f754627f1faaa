"""Starts one version on the store of another one: ``python -m tests.upgrade.run forth|back COMMIT``.

``forth``: COMMIT writes a store, and this checkout starts on it. ``back``: the other way round. ``golden COMMIT`` lets
COMMIT write the store that the tests keep (``tests/golden/upgrade/store.tar.gz``). A version is a directory of sources;
the one of COMMIT is unpacked into a temporary place. What is written and judged uses this checkout's client.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.kill.server import Server
from tests.support.archives import unpack_all
from tests.upgrade.contents import CONTENTS, SETTINGS, fill, judge

ROOT: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = ROOT / "tests" / "golden" / "upgrade" / "store.tar.gz"


@contextlib.contextmanager
def serving(root: Path, source: Path) -> Iterator[Server]:
    """A server of the version whose sources are in ``source``, on the store of ``root``."""
    server = Server(root, "SYNC_FLUSH", SETTINGS)
    try:
        with pythonpath(source):
            server.start()
        yield server
        server.stop()
    finally:
        server.kill()


@contextlib.contextmanager
def pythonpath(source: Path) -> Iterator[None]:
    """For the program that is started meanwhile; those that are started later are of this checkout."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(source)
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@contextlib.contextmanager
def sources_of(commit: str) -> Iterator[Path]:
    """The sources of a commit, unpacked."""
    with tempfile.TemporaryDirectory() as directory:
        packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            unpack_all(archive, Path(directory))
        yield Path(directory, "src")


def write_and_judge(root: Path, writes: Path, starts: Path) -> dict[str, str]:
    """One version writes a store, and another one starts on it; gives what that one does not find."""
    with serving(root, writes) as server:
        fill(server.name_servers)
    with serving(root, starts) as server:
        return judge(server.name_servers)


def pack(root: Path) -> None:
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(GOLDEN, "w:gz") as archive:
        archive.add(root / "store", "store")


def unpack(root: Path) -> None:
    with tarfile.open(GOLDEN) as archive:
        unpack_all(archive, root)


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] not in ("forth", "back", "golden"):
        print("usage: python -m tests.upgrade.run forth|back|golden COMMIT", file=sys.stderr)
        return 2
    here = ROOT / "src"
    with tempfile.TemporaryDirectory() as directory, sources_of(words[1]) as there:
        root = Path(directory)
        if words[0] == "golden":
            with serving(root, there) as server:
                fill(server.name_servers)
            pack(root)
            print(f"{GOLDEN.relative_to(ROOT)}: {GOLDEN.stat().st_size} bytes")
        else:
            wrong = write_and_judge(root, *((there, here) if words[0] == "forth" else (here, there)))
            for kept in CONTENTS:
                print(f"{kept.name}: {wrong.get(kept.name, 'as before')}")
            return 1 if wrong else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
