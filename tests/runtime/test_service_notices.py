"""What a service manager is told, received by a real socket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.service_notices import ServiceNotices

DEADLINE_S = 60.0


@contextmanager
def service_manager(address: str) -> Iterator[socket.socket]:
    """A socket as systemd has it. ``address``: a path, or ``@name`` for one without a file."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.settimeout(DEADLINE_S)
        heard.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        yield heard


def told(heard: socket.socket) -> list[str]:
    return heard.recv(65_536).decode().splitlines()


@pytest.mark.parametrize("name", ["notify", "@gantry-test"])
def test_it_is_told_that_the_service_is_ready_alive_and_stops(tmp_path: Path, name: str) -> None:
    address = f"{name}-{os.getpid()}" if name.startswith("@") else str(tmp_path / name)
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}

    async def live(heard: socket.socket) -> None:
        notices = ServiceNotices.taken_from(environment)
        notices.ready("broker at 127.0.0.1:10911,\nstore", SystemClock())
        assert await asyncio.to_thread(told, heard) == ["READY=1", "STATUS=broker at 127.0.0.1:10911, store"]
        for _ in range(3):
            assert await asyncio.to_thread(told, heard) == ["WATCHDOG=1"]
        notices.stopping()
        while (lines := await asyncio.to_thread(told, heard)) == ["WATCHDOG=1"]:
            pass
        assert lines[0] == "STOPPING=1"

    with service_manager(address) as heard:
        asyncio.run(live(heard))
        heard.setblocking(False)
        with pytest.raises(BlockingIOError):
            told(heard)
    assert environment == {"HOME": "/"}, "child processes must not notify"


def test_no_sign_of_life_is_sent_for_the_watchdog_of_another_process(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3000", "WATCHDOG_PID": "1"}

    async def live() -> None:
        notices = ServiceNotices.taken_from(environment)
        notices.ready("here", SystemClock())
        await asyncio.sleep(0.05)
        notices.stopping()

    with service_manager(address) as heard:
        asyncio.run(live())
        assert [told(heard)[0], told(heard)[0]] == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize("kind", ["nobody", "gone", "full", "too long", "nonsense"])
def test_a_service_goes_on_whatever_the_socket_is(tmp_path: Path, kind: str) -> None:
    address = {"nobody": "", "gone": str(tmp_path / "gone"), "too long": "/" + "x" * 300}.get(kind, str(tmp_path / "s"))
    watchdog = "many" if kind == "nonsense" else "3000"

    async def live() -> None:
        notices = ServiceNotices.taken_from({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": watchdog})
        for _ in range(2_000 if kind == "full" else 1):
            notices.ready("here", SystemClock())
            notices.stopping()

    if kind != "full":
        asyncio.run(live())
        return
    with service_manager(address):
        asyncio.run(live())
