from __future__ import annotations

import os
from pathlib import Path

from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.guesses import memory

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_container_has_the_memory_of_its_limit(tmp_path: Path) -> None:
    limit, no_limit = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    limit.write_text("1073741824\n")
    no_limit.write_text("max\n")
    assert memory.memory_bytes([str(no_limit), str(tmp_path / "absent")]) == PHYSICAL
    assert memory.memory_bytes([str(no_limit), str(limit)]) == min(PHYSICAL, 1 << 30)


def test_a_tenth_of_the_memory_counts_as_cache_but_not_less_than_always() -> None:
    assert OsDisk().cache_bytes == max(256 << 20, memory.memory_bytes() // 10)
