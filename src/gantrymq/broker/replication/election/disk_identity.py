"""The identity of a disk: a number in a file of the store.

It stands for everything that this disk has confirmed. A store that was emptied has a new one, and so has a store whose
machine went off while it wrote with ASYNC_FLUSH: what it had confirmed may be gone. Such a broker is not a member of
the in-sync set any more, and comes back as a new one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from gantrymq.broker.replication.small_file import read_small
from gantrymq.runtime.disk import Disk, write_durably
from gantrymq.runtime.rng import Rng

FILE: Final = "gantry/disk"
BITS: Final = 62
"""It is a positive ``int64`` on the wire."""
WITHOUT: Final = "this broker is a new member of its group then, and leaves the in-sync set until it has every record"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class _Identity(msgspec.Struct, frozen=True):
    disk: int
    boot: str


def boot_of_machine() -> str:
    """Differs after each start of the machine; empty: this system does not say."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def disk_identity(disk: Disk, path: str, rng: Rng, *, boot: str, keeps: bool) -> int:
    """The identity of a store, made when it has none that counts. ``path``: of the file. ``boot``: of the machine, as
    it runs now. ``keeps``: whether what was confirmed outlives the machine, as with SYNC_FLUSH. Raises
    ConfigError when the file is damaged, StoreError or OSError."""
    known = read_small(disk, path, _Identity, WITHOUT)
    if known is not None and (keeps or (boot and known.boot == boot)):
        found = _Identity(known.disk, boot)
    else:
        found = _Identity(int.from_bytes(rng.token(8)) % (1 << BITS) + 1, boot)
    if found != known:
        write_durably(disk, path, msgspec.json.encode(found))
    return found.disk
