"""The identity of a disk: a number in a file of the store.

It stands for everything that this disk has confirmed. A store that was emptied has a new one, and so has a store whose
machine went off while it wrote with ASYNC_FLUSH: what it had confirmed may be gone. Such a broker is not a member of
the in-sync set any more, and comes back as a new one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from gantrymq.runtime.disk import Disk, read_whole, write_durably
from gantrymq.runtime.rng import Rng

FILE: Final = "gantry/disk"
BITS: Final = 62
"""It is a positive ``int64`` on the wire."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_of_machine() -> str:
    """Differs after each start of the machine; empty: this system does not say."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def disk_identity(disk: Disk, path: str, rng: Rng, *, boot: str, keeps: bool) -> int:
    """The identity of a store, made when it has none that counts. ``path``: of the file. ``boot``: of the machine, as
    it runs now. ``keeps``: whether what was confirmed outlives the machine, as with SYNC_FLUSH. Raises StoreError or
    OSError."""
    if disk.exists(path):
        known = json.loads(read_whole(disk, path))
        if keeps or (boot and known["boot"] == boot):
            number = int(known["disk"])
            if known["boot"] != boot:
                _write(disk, path, number, boot)
            return number
    number = int.from_bytes(rng.token(8)) % (1 << BITS) + 1
    _write(disk, path, number, boot)
    return number


def _write(disk: Disk, path: str, number: int, boot: str) -> None:
    write_durably(disk, path, json.dumps({"disk": number, "boot": boot}).encode())
