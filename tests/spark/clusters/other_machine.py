"""Another machine as far as the network tells: a namespace of Linux with a loopback device and an address of its own.

What a program there connects to at 127.0.0.1 is itself, so a driver, broker or name server that announces 127.0.0.1
cannot be reached, as on a cluster of real machines. Files are shared. Needs root and the command ``ip``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType
from typing import Self


class OtherMachine:
    """The namespace, as a context manager."""

    here = "10.203.0.1"
    """The address of this machine, for programs on the other one."""
    there = "10.203.0.2"

    def __init__(self) -> None:
        self._name = f"gantry-{os.getpid()}"
        self.command = ("ip", "netns", "exec", self._name)
        """What to put before a command that is to run there."""

    @staticmethod
    def possible() -> bool:
        return shutil.which("ip") is not None and os.geteuid() == 0

    def __enter__(self) -> Self:
        ours, theirs = f"gn{os.getpid()}a", f"gn{os.getpid()}b"
        self._ip("netns", "add", self._name)
        try:
            self._ip("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", self._name)
            self._ip("address", "add", f"{self.here}/24", "dev", ours)
            self._ip("link", "set", ours, "up")
            self._ip("-n", self._name, "address", "add", f"{self.there}/24", "dev", theirs)
            for device in (theirs, "lo"):
                self._ip("-n", self._name, "link", "set", device, "up")
            # Spark's driver may choose any address of this machine.
            self._ip("-n", self._name, "route", "add", "default", "via", self.here)
        except BaseException:
            self._ip("netns", "delete", self._name)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ip("netns", "delete", self._name)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)
