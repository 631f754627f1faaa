"""Environments that lack something: a process in namespaces of its own, made by ``unshare`` without any privilege."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
UNSHARE: Final = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child")

NO_NETWORK: Final = ()
"""A machine whose only interface, the loopback, is down."""
LOOPBACK_ONLY: Final = ("ip link set lo up",)
IPV6_ONLY: Final = (
    "ip link set lo up",
    "ip address del 127.0.0.1/8 dev lo",
    "ip link add outside type veth peer name router",
    "ip link set router up",
    "ip link set outside up",
    "ip -6 address add 2001:db8::5/64 dev outside nodad",
    "ip -6 route add default dev outside",
)
"""A machine with the address 2001:db8::5, and none of IPv4, not even that of the loopback."""
NO_DEFAULT_ROUTE: Final = (
    "ip link set lo up",
    "ip link add inside type veth peer name other",
    "ip link set other up",
    "ip link set inside up",
    "ip address add 10.9.8.7/24 dev inside",
)
"""A container of an internal network."""


def bare(place: Path) -> tuple[str, ...]:
    """A container as operators harden it: a user with a number, no name and no home directory, no variables, a root and
    a temporary directory that are read only. Only ``/srv`` can be written, which is ``place``."""
    return (
        "ip link set lo up",
        f"chmod 777 {place}",
        f"mount --bind {place} /srv",
        "for point in $(awk '{print $2}' /proc/self/mounts); do",
        "case $point in /srv|/proc*|/dev*) ;; *) mount -o remount,ro,bind $point 2>/dev/null || true ;; esac; done",
        'set -- unshare --user --map-user=12345 --map-group=12345 env -i PATH=/usr/bin:/bin "$@"',
    )


@cache
def missing() -> str:
    """Why namespaces cannot be made here; empty when they can."""
    for tool in ("unshare", "ip", "mount"):
        if shutil.which(tool) is None:
            return f"there is no {tool} here"
    done = subprocess.run(
        [*UNSHARE, "sh", "-ec", "\n".join([*IPV6_ONLY, "unshare --user --map-user=12345 --map-group=12345 true"])],
        capture_output=True,
        text=True,
    )
    return f"namespaces cannot be made here: {done.stderr.strip()}" if done.returncode else ""


def inside(setup: Sequence[str], *words: str) -> list[str]:
    """The command line that runs ``words`` where ``setup`` has been done; skips the test where that cannot be made."""
    if reason := missing():
        pytest.skip(reason)
    return [*UNSHARE, "sh", "-ec", "\n".join([*setup, 'exec "$@"']), "sh", *words]


def python(setup: Sequence[str], module: str, *words: str, limit_s: float = 60.0) -> str:
    """Standard output of ``python -m module`` in that environment; fails with its standard error."""
    return output(setup, sys.executable, "-m", module, *words, limit_s=limit_s)


def output(setup: Sequence[str], *words: str, limit_s: float = 60.0) -> str:
    """Standard output of a command in that environment; fails with its standard error."""
    done = subprocess.run(inside(setup, *words), capture_output=True, text=True, timeout=limit_s, cwd=ROOT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
