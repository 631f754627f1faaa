"""A name server, a primary and its replica, each in a process of its own that is killed with SIGKILL."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from gantrymq.demo.ports import free_port
from tests.kill.server import START_SECONDS, die_with_parent

CONF = """\
brokerName=broker-pair
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
namesrvAddr={name_servers}
storePathRootDir={store}
listenPort={port}
brokerRole={role}
brokerId={number}
haListenPort={ha_port}
slaveTimeout=30000
mappedFileSizeCommitLog=8388608
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=5000
maxIndexNum=20000
transactionTimeOut=1000
transactionCheckInterval=1000
"""
"""Files are small, so that the log has several. Times are short, so that what is open is checked soon."""


class Program:
    """One process of ``gantry``."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        """Return when it is ready."""
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "gantrymq.cli.main", *words]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
        begun = time.monotonic()
        while b" is ready: " not in self.log.read_bytes()[before:]:
            if self._process.poll() is not None or time.monotonic() - begun > START_SECONDS:
                raise RuntimeError(f"it did not start:\n{self.log.read_text()[before:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """SIGTERM, as a service manager does it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Machine(Program):
    """A store, and the broker that serves it in whatever role."""

    def __init__(self, root: Path, name_servers: str) -> None:
        root.mkdir(parents=True)
        super().__init__(root / "broker.log")
        self.store = root / "store"
        self._conf = root / "broker.conf"
        self._name_servers = name_servers
        self._port, self._ha_port = free_port(), free_port()

    def serve(self, role: str, number: int | None = None) -> None:
        """Start the broker as ASYNC_MASTER, SYNC_MASTER or SLAVE. ``number``: brokerId, when it is not the usual one.
        ``brokerRole`` of the last start counts no longer."""
        self._conf.write_text(
            CONF.format(
                name_servers=self._name_servers, store=self.store, port=self._port, ha_port=self._ha_port, role=role,
                number=int(role == "SLAVE") if number is None else number,
            )
        )  # fmt: skip
        self.start("broker", "-c", str(self._conf))


class Pair:
    """Two machines, and the name server that knows them."""

    def __init__(self, root: Path) -> None:
        self._name_server = Program(root / "nameserver.log")
        self._port = free_port()
        self.name_servers = f"127.0.0.1:{self._port}"
        self.machines = [Machine(root / name, self.name_servers) for name in ("a", "b")]

    def __enter__(self) -> Pair:
        self._name_server.start("nameserver", "-p", str(self._port), "--host", "127.0.0.1")
        return self

    def __exit__(self, *_: object) -> None:
        for program in (*self.machines, self._name_server):
            program.kill()
