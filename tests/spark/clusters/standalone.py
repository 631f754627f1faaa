"""A Standalone cluster of Spark: a master and two workers, each a process of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from gantrymq.demo.ports import free_port
from gantrymq.spark.java import find_java
from tests.kill.server import die_with_parent

READY_SECONDS = 60.0


class Standalone:
    """The cluster, as a context manager. Its processes know nothing of the environment of the driver."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        kind = "org.apache.spark.deploy"
        self._start("master", f"{kind}.master.Master", "--host", "127.0.0.1", "--port", str(self.port))
        self._wait("master", "I have been elected leader")
        for name in ("worker-1", "worker-2"):
            work = self._directory / name
            options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "900m", "--work-dir", str(work))
            self._start(name, f"{kind}.worker.Worker", *options, self.master)
        for name in ("worker-1", "worker-2"):
            self._wait(name, "Successfully registered with master")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)

    def _start(self, name: str, *command: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            "PATH": os.environ["PATH"], "JAVA_HOME": find_java().home, "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m", "HOME": os.environ.get("HOME", "/"),
        }  # fmt: skip
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    env=environment, stdout=log, stderr=log, preexec_fn=die_with_parent,
                )
            )  # fmt: skip

    def _wait(self, name: str, words: str) -> None:
        log = self._directory / f"{name}.log"
        end = time.monotonic() + READY_SECONDS
        while words not in log.read_text():
            if time.monotonic() > end or self._processes[-1].poll() is not None:
                raise RuntimeError(f"the {name} is not ready; see {log}:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
