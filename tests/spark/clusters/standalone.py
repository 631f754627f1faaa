"""A Standalone cluster of Spark: a master and two workers, on this machine or with the workers on another one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from gantrymq.demo.ports import free_port
from gantrymq.spark.session.java import find_java
from tests.spark.clusters.other_machine import OtherMachine
from tests.support.tied import tied

READY_SECONDS = 60.0


class Standalone:
    """The cluster, as a context manager. Its processes know nothing of the environment of the driver."""

    def __init__(self, directory: Path, machine: OtherMachine | None = None) -> None:
        """``machine``: where the workers run; None: here."""
        self._directory = directory
        self._machine = machine
        self._processes: list[subprocess.Popen[bytes]] = []
        self._host = machine.here if machine else "127.0.0.1"
        self.port = free_port()
        self.master = f"spark://{self._host}:{self.port}"

    def __enter__(self) -> Self:
        kind = "org.apache.spark.deploy"
        self._start("master", self._host, f"{kind}.master.Master", "--host", self._host, "--port", str(self.port))
        self._wait("master", "I have been elected leader")
        there = self._machine.there if self._machine else self._host
        before = self._machine.command if self._machine else ()
        for name in ("worker-1", "worker-2"):
            options = ("--cores", "1", "--memory", "900m", "--work-dir", str(self._directory / name))
            command = (f"{kind}.worker.Worker", "--host", there, *options, self.master)
            self._start(name, there, *command, before=before)
        for name in ("worker-1", "worker-2"):
            self._wait(name, "Successfully registered with master")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)

    def _start(self, name: str, host: str, *command: str, before: tuple[str, ...] = ()) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            "PATH": os.environ["PATH"], "JAVA_HOME": find_java().home, "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host, "SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m", "HOME": os.environ.get("HOME", "/"),
        }  # fmt: skip
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    tied([*before, str(home / "bin" / "spark-class"), *command]),
                    env=environment, stdout=log, stderr=log, start_new_session=True,
                )
            )  # fmt: skip

    def _wait(self, name: str, words: str) -> None:
        log = self._directory / f"{name}.log"
        end = time.monotonic() + READY_SECONDS
        while words not in log.read_text():
            if time.monotonic() > end or self._processes[-1].poll() is not None:
                raise RuntimeError(f"the {name} is not ready; see {log}:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
