"""A store, a directory for its backups, and the calls that tests make with both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gantrymq.backup.manifest import Manifest
from gantrymq.backup.reading import problems_in
from gantrymq.backup.restoring import Restored, Restoring
from gantrymq.backup.taking import Taken, Taking
from gantrymq.backup.target import DirectoryTarget, Target
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.store.layout import Layout


@dataclass
class Scene:
    """``root`` has ``store`` and ``backups``."""

    root: Path
    disk: Disk = field(default_factory=OsDisk)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    @property
    def target(self) -> Target:
        return DirectoryTarget(self.disk, str(self.backups))

    def take(self, target: Target | None = None) -> Taken:
        return Taking(self.disk, self.clock, Layout(str(self.store)), target or self.target, "gantry test").take()

    def restore(self, name: str = "restored", at_ms: int | None = None, backup_id: str | None = None) -> Restored:
        return Restoring(self.disk, Layout(str(self.root / name)), self.target).restore(at_ms, backup_id)

    def problems(self) -> list[tuple[str, str]]:
        return list(problems_in(self.target, lambda done, total: None))

    def log(self, name: str = "store") -> bytes:
        """The files of the log, one behind the other."""
        return b"".join(file.read_bytes() for file in sorted((self.root / name / "commitlog").iterdir()))


def objects(scene: Scene) -> list[Path]:
    return sorted(path for path in scene.backups.rglob("*") if path.is_file() and path.name != "lock")


@contextmanager
def flipped(path: Path, at: int) -> Iterator[None]:
    """A file with one other byte."""
    before = path.read_bytes()
    path.write_bytes(before[:at] + bytes([before[at] ^ 0x40]) + before[at + 1 :])
    try:
        yield
    finally:
        path.write_bytes(before)


def parts_of(manifest: Manifest) -> list[tuple[int, int]]:
    return [(part.begin, part.end) for part in manifest.log.parts]
