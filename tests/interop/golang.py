"""The official Go client (remoting, v2), used through our drivers ``go/main.go`` and, with TLS, ``go_tls/main.go``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.interop.jars import NotHere, alone, cache
from tests.interop.process import Process

SOURCES = Path(__file__).parent
BUILD_SECONDS = 900


def driver(name: str = "go") -> Path:
    """The compiled driver of a directory, built on first use. Raises NotHere."""
    go = shutil.which("go")
    if go is None:
        raise NotHere("no go on the PATH: these tests build a driver with the official Go client")
    files = sorted((SOURCES / name).iterdir())
    state = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    where = cache() / f"driver-{name}-{state}"
    with alone(f"driver-{name}"):
        if not where.exists():
            try:
                done = subprocess.run(
                    [go, "build", "-o", str(where), "."],
                    cwd=SOURCES / name, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS,
                )  # fmt: skip
            except subprocess.TimeoutExpired as late:
                raise NotHere(f"go build did not end within {BUILD_SECONDS} s: are Go modules reachable?") from late
            if done.returncode:
                raise NotHere(f"the Go driver could not be built; are Go modules reachable? {done.stderr[-400:]}")
    return where


class GoClient:
    """Plays scenarios of the driver."""

    version = "v2.1.2"

    def __init__(self, directory: Path) -> None:
        self._driver = driver()
        self._directory = directory / "client-go"
        self._count = 0

    def play(self, scenario: str, name_servers: str, topic: str, group: str, *more: str) -> Process:
        self._count += 1
        command = [str(self._driver), name_servers, scenario, topic, group, *more]
        home = {"HOME": str(self._directory), "ROCKETMQ_GO_LOG_LEVEL": "error"}
        return Process(f"{self._count:02}-{scenario}", command, self._directory, home)
