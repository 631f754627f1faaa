"""Which addresses the processes of a program listen on, as Linux tells it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from pathlib import Path

LISTEN = "0A"


def listening(pid: int) -> set[str]:
    """Addresses on which a process and its children listen."""
    found: set[str] = set()
    for one in tree(pid):
        inodes = sockets(one)
        for table, size in (("tcp", 8), ("tcp6", 32)):
            for line in Path(f"/proc/{one}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and fields[9] in inodes:
                    found.add(address(fields[1].partition(":")[0], size))
    return found


def address(text: str, size: int) -> str:
    """Words of four bytes, each in the order of this machine."""
    data = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, size, 8))
    where = ipaddress.ip_address(data)
    mapped = where.ipv4_mapped if isinstance(where, ipaddress.IPv6Address) else None
    return str(mapped or where)


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        with contextlib.suppress(FileNotFoundError):  # the process ended meanwhile
            tasks = list(Path(f"/proc/{one}/task").iterdir())
            for task in tasks:
                with contextlib.suppress(FileNotFoundError):  # the thread ended meanwhile
                    found += [int(child) for child in (task / "children").read_text().split()]
    return found


def sockets(pid: int) -> set[str]:
    """The inodes of the sockets of a process."""
    targets = []
    for one in Path(f"/proc/{pid}/fd").iterdir():
        try:
            targets.append(os.readlink(one))
        except FileNotFoundError:  # closed meanwhile
            continue
    return {target.removeprefix("socket:[").rstrip("]") for target in targets if target.startswith("socket:[")}
