"""A server of Spark Connect, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from gantrymq.demo.ports import free_port
from gantrymq.spark.session.java import find_java
from tests.spark.clusters.executor_pythons import ROOT
from tests.support.tied import tied

READY_SECONDS = 120.0
READY = "Spark Connect server started"
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """The server, as a context manager. The package is installed beside it, as docs/spark.md asks for."""

    def __init__(self, directory: Path, master: str = "local[2]") -> None:
        self._log = directory / "connect.log"
        self._spark_master = master
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        self.master = f"sc://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        import pyspark

        home = Path(pyspark.__file__).parent
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ, "JAVA_HOME": find_java().home, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths),
        }  # fmt: skip
        conf = {
            "spark.connect.grpc.binding.port": str(self._port), "spark.ui.enabled": "false",
            "spark.master": self._spark_master, "spark.driver.memory": "1g",
        }  # fmt: skip
        options = [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]
        command = [str(home / "bin" / "spark-submit"), "--class", CLASS, *options, "spark-internal"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                tied(command), env=environment, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + READY_SECONDS
        while READY not in self._log.read_text():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(f"the server is not ready; see {self._log}:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.1)
        return self

    def kill_and_start(self) -> None:
        """End it without warning, with the queries that it runs, and start another one at the same address."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)
        self.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
