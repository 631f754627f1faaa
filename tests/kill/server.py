"""``gantry server`` in a process of its own, which is killed with SIGKILL and started again on the same store."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gantrymq.demo.ports import free_port

START_SECONDS = 30.0
READY = b"gantry server is ready: "
"""What the server prints then."""
PR_SET_PDEATHSIG = 1

CONF = """\
brokerName=broker-kill
brokerIP1={host}
listenPort={broker_port}
namesrvAddr={host}:{name_server_port}
storePathRootDir={store}
flushDiskType={flush}
mappedFileSizeCommitLog=8388608
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=5000
maxIndexNum=20000
transactionTimeOut=1000
transactionCheckInterval=1000
transactionCheckMax=5
"""
"""Files are small, so that some kills come when a file is full. Times are short, so that there are checks."""


class Server:
    """One store and the process that serves it."""

    def __init__(self, root: Path, flush: str, more: str = "", host: str = "127.0.0.1") -> None:
        """``more``: further lines of the configuration. ``host``: where broker and name server listen."""
        self._host = host
        self.store = root / "store"
        self.log = root / "server.log"
        self._conf = root / "broker.conf"
        self.name_server_port, self.broker_port = free_port(), free_port()
        self.name_servers = f"{host}:{self.name_server_port}"
        root.mkdir(parents=True, exist_ok=True)
        self._conf.write_text(
            CONF.format(
                host=host,
                broker_port=self.broker_port,
                name_server_port=self.name_server_port,
                store=self.store,
                flush=flush,
            )
            + more
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start the process and wait until it is ready: it listens, and its broker is registered. Returns the time in
        seconds."""
        command = [sys.executable, "-m", "gantrymq.cli.main", "server", "-c", str(self._conf)]
        command += ["--name-server-port", str(self.name_server_port), "--host", self._host]
        begin = time.monotonic()
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
        while READY not in self.log.read_bytes()[before:]:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with status {self._process.returncode}; see {self.log}")
            if time.monotonic() - begin > START_SECONDS:
                raise RuntimeError(f"the server was not ready within {START_SECONDS:.0f} s; see {self.log}")
            time.sleep(0.02)
        return time.monotonic() - begin

    def kill(self) -> None:
        """Send SIGKILL, if the process is running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop the process in an orderly way."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=START_SECONDS)
            self._process = None


def die_with_parent() -> None:
    """Let the server die when the test ends by Ctrl-C, a crash or a kill."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
