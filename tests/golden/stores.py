"""Store directories of real RocketMQ processes and what their official decoder says of them (store/README.md)."""

from __future__ import annotations

import gzip
import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.archives import unpack_all

STORES = Path(__file__).parent / "store"
NAMES = ("4.9.7", "5.5.0", "5.5.0-killed")


@cache
def expected(name: str) -> dict[str, Any]:
    """Contents of a recorded store."""
    with gzip.open(STORES / f"{name}.expected.json.gz", "rt", encoding="utf-8") as file:
        contents: dict[str, Any] = json.load(file)
    return contents


def unpack(name: str, target: Path) -> Path:
    """A fresh copy of a recorded store directory."""
    root = target / name
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        unpack_all(archive, root)
    return root
