"""A full disk played to its end: a real server on a real file system of some MB, seen by a real Prometheus, the console
and the command line."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gantrymq import Message, Producer, TransactionProducer
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.protocol.codes import ResponseCode
from tests.cli.test_serve import address, program, server
from tests.console.site import SETTINGS, browsers
from tests.deploy.test_prometheus import DEADLINE_S, Undecided, firing, prometheus

VOLUME_MB = 24
SMALL_FILES = (
    "mappedFileSizeCommitLog=1048576", "mappedFileSizeConsumeQueue=20000", "maxIndexNum=2000", "maxHashSlotNum=500",
    "transactionTimeOut=600000", "deleteWhen=99",
)  # fmt: skip
MOUNT = 'mount -t tmpfs -o size="$1" none "$0" && shift && exec "$@"'


def on_volume(directory: Path) -> tuple[str, ...]:
    """What starts a program with a small file system at ``directory``, which only it sees; skips where that cannot be
    done."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a file system needs root and unshare (util-linux)")
    directory.mkdir()
    before = ("unshare", "--mount", "sh", "-c", MOUNT, str(directory), f"{VOLUME_MB}m")
    tried = subprocess.run([*before, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {tried.stderr.strip()}")
    return before


def metric(http: int, name: str, **labels: str) -> float:
    """The value of one series of a broker."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [
        float(line.rsplit(" ", 1)[1]) for line in lines
        if line.startswith(name + "{") and all(f'{label}="{value}"' in line for label, value in labels.items())
    ]  # fmt: skip
    assert len(found) == 1, (name, labels, found)
    return found[0]


def gantry(*arguments: str) -> str:
    with program(*arguments) as running:
        status, out, err = running.ended()
    assert status == 0, out + err
    return out + err


def until(holds: Callable[[], Any], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def filled(producer: Producer) -> GantryError:
    """Send until it is refused; the error. Random bytes: a client compresses others."""
    for _ in range(20 * VOLUME_MB):
        try:
            producer.send(Message("Orders", os.urandom(100_000)))
        except GantryError as error:
            return error
    raise AssertionError("nothing was refused")


def fill_the_rest(directory: Path) -> int:
    """What another program does; how many bytes it could write."""
    written = 0
    with (directory / "foreign").open("wb", buffering=0) as file:
        while True:
            try:
                written += file.write(bytes(4096))
            except OSError:
                return written


def seen_in_the_console(name_server: str, audit: Path) -> str:
    async def look() -> str:
        async with browsers(name_server, audit, SETTINGS) as new_browser:
            browser = new_browser()
            await browser.log_in("otto")
            return await browser.get("/") + await browser.get("/brokers/broker-a")

    return asyncio.run(look())


class CommitsNothing(Undecided):
    """A local transaction whose outcome is decided by an operator."""


@pytest.mark.slow
def test_a_full_disk_is_seen_everywhere_and_left(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    before, http = on_volume(volume), free_port()
    settings = tmp_path / "broker.conf"
    settings.write_text("\n".join((*SMALL_FILES, f"httpPort={http}")))
    with program(*server(volume / "store", "-c", str(settings)), before=before) as running:
        name_server = address(running.ready(), "name server")
        inside = Path(f"/proc/{running.process.pid}/root{volume}")
        with (
            TransactionProducer("orders", name_servers=name_server, listener=CommitsNothing()) as transactions,
            Producer("PG", name_servers=name_server) as producer,
        ):
            for key in ("one", "two"):
                transactions.send_in_transaction(Message("Orders", key.encode(), keys=[key]))
            rows = json.loads(gantry("transactions", "list", "--json", "-n", name_server))
            ids = [row["id"] for row in (rows["transactions"] if isinstance(rows, dict) else rows)]
            assert len(ids) == 2
            refused = filled(producer)
            assert "disk is full" in str(refused) and "gantry transactions list" in str(refused)
            assert not isinstance(refused, RequestRejected) or refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert fill_the_rest(inside) > 0, "the last part of a disk is no room for messages"
            assert shutil.disk_usage(inside).free == 0

            # Everybody is told.
            until(lambda: metric(http, "gantry_writes_stopped", use="message") == 1, lambda: "the metric")
            assert metric(http, "gantry_writes_stopped", use="decision") == 0
            assert metric(http, "gantry_disk_used_ratio", directory="log") > 0.9
            assert metric(http, "gantry_disk_reserve_bytes") > 0
            with prometheus(tmp_path, f"127.0.0.1:{http}") as url:
                until(lambda: {"DiskFillingUp", "MessagesRefused"} <= firing(url), lambda: firing(url))
            assert "takes no messages: the broker's disk is full" in gantry("cluster", "status", "-n", name_server)
            assert "takes no messages: the broker" in seen_in_the_console(name_server, tmp_path / "console.jsonl")

            # The transactions are decided, the oldest files go, and messages are taken again; the other program's file
            # is still there.
            audit = ("--audit", str(tmp_path / "audit.jsonl"), "--why", "a full disk", "--yes", "-n", name_server)
            gantry("transactions", "commit", ids[0], *audit)
            gantry("transactions", "rollback", ids[1], *audit)
            until(
                lambda: metric(http, "gantry_writes_stopped", use="message") == 0,
                lambda: gantry("cluster", "status", "-n", name_server),
            )
            producer.send(Message("Orders", b"after"))
            assert metric(http, "gantry_disk_reserve_bytes") >= metric(http, "gantry_disk_reserve_wanted_bytes")
            assert "takes no messages" not in gantry("cluster", "status", "-n", name_server)
