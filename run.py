#!/usr/bin/env python3
"""Set everything up and run it: ``python3 run.py demo`` or ``python3 run.py test``.

Needs Python 3.11 or later with pip, and nothing else: Java comes from a package of the lock file. The first call makes
``.venv`` beside this file from ``requirements.lock`` (exact versions, checked by hash) and takes some minutes; later
calls start at once. ``.venv`` is made anew whenever the lock or the Python version changes.

Standard library only, and written so that an old Python can still read it and say what is missing.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import List, NoReturn, Optional, Tuple

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
LOCK = os.path.join(ROOT, "requirements.lock")
PROJECT = os.path.join(ROOT, "pyproject.toml")
OWNED = os.path.join(VENV, "made-by-run.py")
READY = os.path.join(VENV, "ready-for")
LOG = os.path.join(VENV, "install.log")
OLDEST = (3, 11)
NAMES = ("python3.14", "python3.13", "python3.12", "python3.11", "python3", "python")

COMMANDS = ("demo", "test", "gantry", "bench", "lock")
USAGE = """usage: python3 run.py COMMAND [arguments]

  demo [--orders N --seed S --dir D --json FILE]   the whole story on this machine; --help says more
  test [stage ...]                                 every check, as CI runs them; a pytest argument after --
  test quick                                       lint, types, layers and the tests that are not slow: under 3 minutes
  gantry ...                                       any other command of gantry
  bench ...                                        messages a second and latencies on this machine; --help says more
  bench apache ...                                 the same side by side with Apache's broker; needs a JDK and Maven
  bench open-transactions ...                      what 10^3 to 10^6 open transactions cost
  bench recovery ...                               seconds from the death of a producer to the delivery, on both brokers
  lock                                             (maintainers, needs uv) write requirements.lock anew
"""


def say(text: str) -> None:
    print(text, flush=True)


def fail(text: str) -> NoReturn:
    sys.exit("run.py: " + text)


def version_of(python: str) -> Optional[Tuple[int, int]]:
    """(major, minor) of an interpreter, or None when it does not run."""
    ask = "import sys; print(sys.version_info[0], sys.version_info[1])"
    try:
        answer = subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        major, minor = answer.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def find_python() -> str:
    """The interpreter that runs this script when it is new enough, else the first good one on the PATH."""
    if sys.version_info[:2] >= OLDEST:
        return sys.executable
    for name in NAMES:
        path = shutil.which(name)
        if path and (version_of(path) or (0, 0)) >= OLDEST:
            return path
    return fail(
        "Python %d.%d or later is needed; this one is %s and none of %s on the PATH is newer. Install one and call it:"
        " python3.11 run.py ..." % (OLDEST[0], OLDEST[1], sys.version.split()[0], ", ".join(NAMES))
    )


def fingerprints(python: str) -> Tuple[str, str]:
    """What .venv is made from, and what gantrymq's own entry in it is made from."""
    with open(LOCK, "rb") as file:
        packages = hashlib.sha256(file.read() + repr((version_of(python), ROOT)).encode()).hexdigest()
    with open(PROJECT, "rb") as file:
        return packages, hashlib.sha256(file.read()).hexdigest()


def read(path: str) -> Optional[str]:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


class Progress:
    """One line that keeps moving on a terminal; a line a step anywhere else."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.text = ""
        self.started = time.monotonic()
        self.live = sys.stdout.isatty()
        self.stopped = threading.Event()
        self.ticker = threading.Thread(target=self._tick, daemon=True)
        self.ticker.start()

    def _line(self) -> str:
        elapsed = int(time.monotonic() - self.started)
        bar = ""
        if self.live:
            filled = 24 * self.done // max(self.total, 1)
            bar = "#" * filled + "." * (24 - filled) + " "
        return "  %s%2d/%d  %3d s  %s" % (bar, self.done, self.total, elapsed, self.text)

    def _tick(self) -> None:
        while not self.stopped.wait(0.5 if self.live else 15):
            self.show()

    def show(self) -> None:
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write("\r" + self._line()[:width].ljust(width))
            sys.stdout.flush()
        else:
            say(self._line())

    def step(self, text: str, done: int = 0) -> None:
        self.done += done
        self.text = text
        self.show()

    def close(self) -> None:
        self.stopped.set()
        self.ticker.join()
        if self.live:
            sys.stdout.write("\n")


def pip_command(python: str) -> List[str]:
    """The pip to install with: the one inside .venv, or the outer one where venv cannot bring its own."""
    inside = os.path.join(VENV, "bin", "python")
    if (
        subprocess.run(
            [inside, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        == 0
    ):
        return [inside, "-m", "pip"]
    return [python, "-m", "pip", "--python", inside]


def pip_install(pip: List[str], arguments: List[str], progress: Progress) -> None:
    """Run one pip install, its output going to the log and its steps to ``progress``."""
    command = [*pip, "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", *arguments]
    seen = set()
    with open(LOG, "a") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        for line in process.stdout or ():
            log.write(line)
            name = re.match(r"Collecting ([A-Za-z0-9._-]+)", line)
            if name and name.group(1) not in seen:
                seen.add(name.group(1))
                progress.step("fetching " + name.group(1), done=1)
            elif re.match(r"\s*Building wheel", line):
                progress.step(line.strip())
            elif seen and line.startswith("Installing collected packages"):
                progress.step("unpacking %d packages" % len(seen))
        if process.wait() != 0:
            progress.close()
            tail = "".join((read(LOG) or "").splitlines(True)[-25:])
            fail("pip could not install the locked packages; its last words (all of them in %s):\n%s" % (LOG, tail))


def lock_entries() -> List[str]:
    """The lock, cut into one text per package."""
    entries = re.split(
        r"(?m)^(?=[a-z0-9])", read(LOCK) or fail("requirements.lock is missing; check out the whole repository")
    )
    return [entry for entry in entries if re.match(r"[a-z0-9]", entry)]


def install(python: str) -> None:
    """Fill .venv from the lock. setuptools comes first, so that what builds the others is pinned as well."""
    pip = pip_command(python)
    entries = lock_entries()
    build_tools = [entry for entry in entries if entry.startswith("setuptools==")]
    progress = Progress(len(entries))
    handle, first = tempfile.mkstemp(suffix=".txt")
    try:
        with os.fdopen(handle, "w") as file:
            file.write("".join(build_tools))
        pip_install(pip, ["--require-hashes", "--no-deps", "-r", first], progress)
        pip_install(
            pip, ["--require-hashes", "--no-deps", "--no-build-isolation", "--use-pep517", "-r", LOCK], progress
        )
    finally:
        os.unlink(first)
    progress.close()


def install_project(python: str) -> None:
    """Make gantrymq itself known to .venv: its modules stay here, its command goes to bin/gantry."""
    progress = Progress(1)
    progress.step("installing gantrymq itself")
    pip_install(pip_command(python), ["--no-deps", "--no-build-isolation", "--editable", ROOT], progress)
    progress.step("installed gantrymq itself", done=1)
    progress.close()


def make_venv(python: str) -> None:
    if os.path.isdir(VENV):
        if not os.path.exists(OWNED):
            fail("%s was not made by this script; move it away and call again" % VENV)
        shutil.rmtree(VENV)
    major, minor = version_of(python) or OLDEST
    say("run.py: making .venv with Python %d.%d (once; minutes and 1 GB, most of it Spark)" % (major, minor))
    made = subprocess.run([python, "-m", "venv", VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if (
        made.returncode != 0
    ):  # Debian's python3 without python3-venv has no ensurepip; the outer pip can fill .venv as well
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([python, "-m", "venv", "--without-pip", VENV], check=True)
    write(OWNED, "run.py removes and remakes this directory\n")
    started = time.monotonic()
    install(python)
    say("run.py: .venv is ready after %d s" % (time.monotonic() - started))


def ready_venv() -> str:
    """The path of .venv's python, after making or remaking .venv where needed."""
    python = find_python()
    packages, project = fingerprints(python)
    made = (read(READY) or "").split()
    if made[:1] != [packages]:
        make_venv(python)
        write(READY, packages)
    if made != [packages, project]:
        install_project(python)
        write(READY, packages + " " + project)
    return os.path.join(VENV, "bin", "python")


def write_lock() -> int:
    """Resolve pyproject.toml for every Python and system at once. No index address gets into the file."""
    uv = shutil.which("uv") or fail("'lock' needs uv on the PATH; nothing else does")
    command = [
        uv,
        "pip",
        "compile",
        "pyproject.toml",
        "--extra",
        "all",
        "--group",
        "dev",
        "--universal",
        "--no-config",
    ]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header", "--quiet"]
    environment = {key: value for key, value in os.environ.items() if not key.endswith("FIND_LINKS")}
    return subprocess.call([*command, "-o", "requirements.lock", *sys.argv[2:]], cwd=ROOT, env=environment)


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") or sys.argv[1] not in COMMANDS:
        say(USAGE)
        return 0 if len(sys.argv) == 2 and sys.argv[1] in ("-h", "--help") else 2
    command, rest = sys.argv[1], sys.argv[2:]
    if command == "lock":
        return write_lock()
    python = ready_venv()
    programs = {
        "demo": ["-m", "gantrymq.cli.main", "demo"],
        "gantry": ["-m", "gantrymq.cli.main"],
        "bench": ["-m", "benchmarks"],
        "test": [os.path.join(ROOT, "tools", "checks.py")],
    }
    if command == "bench":
        os.chdir(ROOT)  # benchmarks is no part of what is installed
    os.environ["GANTRY_CALLED_AS"] = "python3 %s gantry" % os.path.relpath(__file__)
    return os.execv(python, [python, *programs[command], *rest])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
