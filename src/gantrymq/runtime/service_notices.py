"""What a service tells the service manager that started it: that it is ready, alive, or about to stop.

It is systemd's protocol for units with ``Type=notify``: datagrams with lines ``KEY=value`` to the socket that the
environment variable NOTIFY_SOCKET names. Without that variable nothing is told. A socket that is gone or full is
ignored: a server does not stop because nobody listens to its notices. Source: sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping
from typing import Final

from gantrymq.runtime.clock import Clock, Timer

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
BEATS: Final = 3
"""Signs of life in the time after which the service manager would end the service: one late one is no harm."""


class ServiceNotices:
    """All calls belong to the event loop, and none of them raises or waits."""

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        """``address``: of the socket; empty: nobody is told. ``watchdog_s``: after how many seconds without a sign of
        life the service manager ends the service; 0: never."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_s = watchdog_s
        self._timer: Timer | None = None

    @classmethod
    def taken_from(cls, environment: MutableMapping[str, str]) -> ServiceNotices:
        """What the environment says, which is taken out of it: notices of child processes would be taken for ours."""
        address = environment.pop(SOCKET, "")
        interval, meant = environment.pop(WATCHDOG_US, ""), environment.pop(WATCHDOG_PID, "")
        for_us = meant in ("", str(os.getpid()))
        return cls(address, int(interval) / 1_000_000 if interval.isdecimal() and for_us else 0.0)

    def ready(self, where: str, clock: Clock) -> None:
        """The service works; ``where``: how it is reached, for people. From now on signs of life are sent, by the
        event loop, so that they end when it hangs."""
        self._tell("READY=1", f"STATUS={_line(where)}")
        if self._address and self._watchdog_s:
            self._beat(clock)

    def stopping(self) -> None:
        """The service has begun to stop. Signs of life end: how long a stop may take is a limit of its own."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell("STOPPING=1", "STATUS=Stopping: what was acknowledged is being made durable")

    def _beat(self, clock: Clock) -> None:
        self._tell("WATCHDOG=1")
        self._timer = clock.call_later(self._watchdog_s / BEATS, lambda: self._beat(clock))

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto("\n".join(lines).encode(), self._address)


def _line(text: str) -> str:
    return " ".join(text.split())
