from __future__ import annotations

import os
from pathlib import Path

from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.guesses import memory

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


GIB = 1 << 30


def limit(root: Path, group: str, text: str, name: str = "memory.max") -> None:
    (root / group).mkdir(parents=True, exist_ok=True)
    (root / group / name).write_text(f"{text}\n")


def found(root: Path, *groups: str) -> int:
    (root / "groups").write_text("\n".join(groups))
    return memory.memory_bytes(str(root / "groups"), str(root))


def test_a_container_has_the_memory_of_its_limit(tmp_path: Path) -> None:
    """Its own group is the root of what it sees, and the name of the group may be one of the outside."""
    limit(tmp_path, "", "max")
    assert found(tmp_path, "0::/") == PHYSICAL
    limit(tmp_path, "", str(GIB))
    for group in ("0::/", "0::/docker/0123abc", "0::/../../other", ""):
        assert found(tmp_path, group) == min(PHYSICAL, GIB), group
    assert memory.memory_bytes(str(tmp_path / "absent"), str(tmp_path)) == min(PHYSICAL, GIB)


def test_the_smallest_of_nested_groups_counts(tmp_path: Path) -> None:
    """As a service of systemd, in a slice with a limit of its own."""
    limit(tmp_path, "system.slice", str(GIB // 2))
    limit(tmp_path, "system.slice/gantry.service", str(GIB))
    limit(tmp_path, "user.slice", str(GIB // 8))
    assert found(tmp_path, "0::/system.slice/gantry.service") == min(PHYSICAL, GIB // 2)
    limit(tmp_path, "system.slice/gantry.service", str(GIB // 4))
    assert found(tmp_path, "0::/system.slice/gantry.service") == min(PHYSICAL, GIB // 4)


def test_nested_groups_of_version_1(tmp_path: Path) -> None:
    limit(tmp_path / "memory", "", str(2**63 - 4096), "memory.limit_in_bytes")
    limit(tmp_path / "memory", "a", str(GIB // 2), "memory.limit_in_bytes")
    limit(tmp_path / "memory", "a/b", str(GIB), "memory.limit_in_bytes")
    limit(tmp_path / "cpu", "a", str(GIB // 8), "memory.limit_in_bytes")
    assert found(tmp_path, "4:cpu,cpuacct:/a", "9:memory:/a/b") == min(PHYSICAL, GIB // 2)


def test_a_tenth_of_the_memory_counts_as_cache_but_not_less_than_always() -> None:
    assert OsDisk().cache_bytes == max(256 << 20, memory.memory_bytes() // 10)
