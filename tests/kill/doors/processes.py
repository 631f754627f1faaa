"""A name server, a broker with a gRPC door, and a proxy, each a process that can be killed and started again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from gantrymq.cli.serving.running import SUPERVISED
from gantrymq.demo.ports import free_port

START_SECONDS = 60.0
BROKER = "broker"
PROXY = "proxy"
CONF = """\
brokerName=broker-doors
brokerIP1=127.0.0.1
bindAddress=127.0.0.1
listenPort={listen}
grpcPort={grpc}
namesrvAddr={names}
storePathRootDir={store}
flushDiskType={flush}
mappedFileSizeCommitLog=8388608
mappedFileSizeConsumeQueue=60000
maxHashSlotNum=5000
maxIndexNum=20000
transactionTimeOut=1000
transactionCheckInterval=1000
transactionCheckMax=100
"""
"""Files are small, so that some kills come when a file is full. Times are short, so that there are checks."""


class Program:
    """One ``gantry`` command."""

    def __init__(self, log: Path, words: list[str]) -> None:
        self._log = log
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it is ready."""
        before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "gantrymq.cli.main", *self._words]
            # It ends with its standard input, so with this process. A function that runs in the child before it would
            # need a fork, at which the threads of grpcio's clients break.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, SUPERVISED: "1"},
            )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while b"is ready: " not in self._log.read_bytes()[before:]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"gantry {self._words[0]} did not start; see {self._log}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL. Harmless when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process = None


class Processes:
    """See above."""

    def __init__(self, root: Path, flush: str = "ASYNC_FLUSH") -> None:
        root.mkdir(parents=True, exist_ok=True)
        names, listen, door, proxy = (free_port() for _ in range(4))
        self.name_servers = f"127.0.0.1:{names}"
        self.doors = {BROKER: f"127.0.0.1:{door}", PROXY: f"127.0.0.1:{proxy}"}
        """The two doors of gRPC."""
        conf = root / "broker.conf"
        conf.write_text(
            CONF.format(listen=listen, grpc=door, names=self.name_servers, store=root / "store", flush=flush)
        )
        self._names = Program(root / "names.log", ["nameserver", "--listen-port", str(names), "--host", "127.0.0.1"])
        self._killed = {
            BROKER: Program(root / "broker.log", ["broker", "--config", str(conf)]),
            PROXY: Program(
                root / "proxy.log",
                ["proxy", "-n", self.name_servers, "--grpc-port", str(proxy), "--bind", "127.0.0.1"],
            ),
        }

    def start(self) -> None:
        for program in (self._names, *self._killed.values()):
            program.start()

    def kill(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._killed[name].kill()

    def start_again(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._killed[name].start()

    def close(self) -> None:
        for program in (*self._killed.values(), self._names):
            program.kill()
