#!/usr/bin/env python3
"""Set everything up and run it: ``python3 run.py demo`` or ``python3 run.py test``.

Needs Python 3.11 or later with pip, and nothing else: Java comes from a package of the lock file. The first call makes
``.venv`` beside this file from ``requirements.lock`` (exact versions, checked by hash) and installs what its command
needs: seconds for ``run.py gantry server``, minutes and 1 GB for what runs Spark. Later calls start at once; a
command that needs more adds it. ``.venv`` is made anew whenever the lock or the Python version changes.

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
from typing import List, NoReturn, Optional, Set, Tuple

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
LOCK = os.path.join(ROOT, "requirements.lock")
PROJECT = os.path.join(ROOT, "pyproject.toml")
OWNED = os.path.join(VENV, "made-by-run.py")
READY = os.path.join(VENV, "ready-for")
LOG = os.path.join(VENV, "install.log")
COMPILED = os.path.join(VENV, "compiled")
CURRENT = os.path.join(COMPILED, "current")
COMPILE_LOG = os.path.join(VENV, "compile.log")
OLDEST = (3, 11)
NAMES = ("python3.14", "python3.13", "python3.12", "python3.11", "python3", "python")

SERVER, TOOLS, COMPILER, EVERYTHING = "server", "tools", "compiler", "everything"
LEVELS = (SERVER, TOOLS, COMPILER, EVERYTHING)
"""What is installed in .venv: a level has all that the ones before it have."""
COMPILER_PACKAGES = ("mypy", "setuptools")
WITH_SPARK = ("demo", "pipeline")
"""Commands of gantry that start Spark."""
SERVERS = ("server", "broker", "nameserver")

COMMANDS = ("demo", "test", "gantry", "bench", "docs", "compile", "lock")
USAGE = """usage: python3 run.py COMMAND [arguments]

  demo [--orders N --seed S --dir D --json FILE]   pay orders, kill programs, count with Spark; --help says more
  test [stage ...]                                 every check, as CI runs them; a pytest argument after --;
                                                   'test compiled' and 'test compiled-interop' run the tests on the
                                                   compiled core, 'test interop-guarded' those with TLS and users,
                                                   'test spark42' runs the connector on Spark 4.2, 'test clusters'
                                                   on clusters of Spark, and 'test registry' compares the schema
                                                   registry of the tests with a real one
  test quick                                       lint, types, layers and the tests that are not slow: under 3 minutes
  gantry ...                                       any other command of gantry
  bench ...                                        messages a second and latencies on this machine; --help says more
  bench apache ...                                 the same side by side with Apache's broker; needs a JDK and Maven
  bench open-transactions ...                      what 10^3 to 10^6 open transactions cost
  bench grpc ...                                   the same for clients of RocketMQ 5, beside Apache's proxy
  bench recovery ...                               seconds from the death of a producer to the delivery, on both brokers
  bench consistency ...                            two-phase commit, plain message, outbox and transaction message
  docs                                             build the documentation site from docs/, and check every link
  compile                                          compile the core (minutes, with a C compiler); later commands use
                                                   it as long as the sources stay the same
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

    def move(self, text: str) -> None:
        """Like ``step``, for steps of a second. Where lines cannot be overwritten, such steps are not shown."""
        self.text = text
        if self.live:
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
    if not os.path.isdir(VENV):
        fail("%s is missing" % VENV)
    command = [*pip, "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", *arguments]
    collected = set()
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
            if name and name.group(1) not in collected:
                collected.add(name.group(1))
                progress.step("fetching " + name.group(1), done=1)
            elif re.match(r"\s*Building wheel", line):
                progress.step(line.strip())
            elif collected and line.startswith("Installing collected packages"):
                progress.step("unpacking %d packages" % len(collected))
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


def name_of(entry: str) -> str:
    return entry.split("==")[0]


def wanted_by(entry: str) -> Set[str]:
    """The packages that need the one of this entry, as the lock says below it (``# via``)."""
    return set(re.findall(r"(?m)^ +#(?: via)? +([a-z0-9][a-z0-9._-]*)", entry))


def project_packages(key: str) -> Set[str]:
    """The packages in a list of pyproject.toml: ``dependencies``, or the name of an extra."""
    text = read(PROJECT) or fail("pyproject.toml is missing; check out the whole repository")
    lists = re.findall(r"(?ms)^%s = \[(.*?)\]$" % key, text)
    return {name.lower() for listed in lists for name in re.findall(r'"([A-Za-z0-9._-]+)', listed)}


def entries_for(level: str, entries: List[str]) -> List[str]:
    """The entries of the lock that a level needs: its packages, and whatever is there because of one of them."""
    if level == EVERYTHING:
        return entries
    wanted = project_packages("dependencies")
    if level != SERVER:  # a tool shows messages of others, and those may be compressed
        wanted.update(project_packages("compression") | project_packages("console"))
    if level == COMPILER:
        wanted.update(COMPILER_PACKAGES)
    before = 0
    while before != len(wanted):
        before = len(wanted)
        wanted.update(name_of(entry) for entry in entries if wanted_by(entry) & wanted)
    return [entry for entry in entries if name_of(entry) in wanted]


def install(python: str, level: str) -> None:
    """Add what a level needs from the lock. setuptools comes first, so that what builds others is pinned as well."""
    pip = pip_command(python)
    entries = entries_for(level, lock_entries())
    progress = Progress(len(entries))
    build_tools = [entry for entry in entries if name_of(entry) == "setuptools"]
    handle, path = tempfile.mkstemp(suffix=".txt")
    os.close(handle)
    try:
        for listed in (build_tools, entries):
            if listed:
                write(path, "".join(listed))
                built = ["--no-build-isolation", "--use-pep517"] if build_tools else ["--only-binary", ":all:"]
                if level != EVERYTHING:  # most modules of these packages are never imported
                    built.append("--no-compile")
                pip_install(pip, ["--require-hashes", "--no-deps", *built, "-r", path], progress)
    finally:
        os.unlink(path)
    progress.close()


def link_sources() -> None:
    """Let .venv import gantrymq from src/: all that a small .venv needs, without a build tool in it."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.check_output([os.path.join(VENV, "bin", "python"), "-c", ask], universal_newlines=True)
    write(os.path.join(packages.strip(), "gantrymq-sources.pth"), os.path.join(ROOT, "src") + "\n")


def install_project(python: str) -> None:
    """Make gantrymq itself known to .venv: its modules stay here, its command goes to bin/gantry."""
    progress = Progress(1)
    progress.step("installing gantrymq itself")
    pip_install(pip_command(python), ["--no-deps", "--no-build-isolation", "--editable", ROOT], progress)
    progress.step("installed gantrymq itself", done=1)
    progress.close()


def has_pip_for_others(python: str) -> bool:
    """Whether the pip of this Python can install into another environment (``--python``, since 22.3)."""
    asked = subprocess.run(
        [python, "-m", "pip", "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True
    )
    version = re.match(r"pip (\d+)\.(\d+)", asked.stdout)
    return version is not None and (int(version.group(1)), int(version.group(2))) >= (22, 3)


def make_venv(python: str, level: str) -> None:
    if os.path.isdir(VENV):
        if not os.path.exists(OWNED):
            fail("%s was not made by this script; move it away and call again" % VENV)
        shutil.rmtree(VENV)
    options = [] if level == EVERYTHING or not has_pip_for_others(python) else ["--without-pip"]
    made = subprocess.run([python, "-m", "venv", *options, VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if (
        made.returncode != 0
    ):  # Debian's python3 without python3-venv has no ensurepip; the outer pip can fill .venv as well
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([python, "-m", "venv", "--without-pip", VENV], check=True)
    write(OWNED, "run.py removes and remakes this directory\n")


AMOUNTS = {SERVER: "seconds", TOOLS: "seconds", COMPILER: "seconds", EVERYTHING: "minutes and 1 GB, most of it Spark"}


def ready_venv(level: str) -> str:
    """The path of .venv's python, after making it, remaking it or adding to it where needed.

    READY holds the fingerprint of the lock, the level, and, when all is installed, the fingerprint of gantrymq's entry.
    """
    python = find_python()
    packages, project = fingerprints(python)
    made = (read(READY) or "").split()
    anew = made[:1] != [packages]
    has = made[1] if not anew and len(made) > 1 and made[1] in LEVELS else None
    if has is None or LEVELS.index(has) < LEVELS.index(level):
        major, minor = version_of(python) or OLDEST
        what = "making .venv with Python %d.%d" % (major, minor) if anew else "adding to .venv what this command needs"
        say("run.py: %s (once; %s)" % (what, AMOUNTS[level]))
        started = time.monotonic()
        if anew:
            make_venv(python, level)
        install(python, level)
        link_sources()
        has, made = level, [packages, level]
        write(READY, " ".join(made))
        say("run.py: .venv is ready after %d s" % (time.monotonic() - started))
    if has == EVERYTHING and made[2:] != [project]:
        install_project(python)
        write(READY, " ".join([packages, EVERYTHING, project]))
    return os.path.join(VENV, "bin", "python")


def has_compiler(python: str) -> bool:
    """Whether extension modules can be compiled: a C compiler on the PATH, and the headers of this Python."""
    ask = "import os, sysconfig; print(os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
    headers = subprocess.check_output([python, "-c", ask], universal_newlines=True).strip() == "True"
    return headers and any(shutil.which(name) for name in ("cc", "gcc", "clang"))


def why_unusable(python: str, directory: str) -> str:
    """Why a compiled core must not be used, as gantrymq itself finds it; empty when it may."""
    ask = "import sys; from pathlib import Path; from gantrymq.build_info import why_unusable as why"
    environment = {key: value for key, value in os.environ.items() if key not in ("GANTRY_COMPILED", "GANTRY_PURE")}
    command = [python, "-c", ask + "; print(why(Path(sys.argv[1])))", directory]
    return subprocess.check_output(command, universal_newlines=True, env=environment).strip()


def compile_core(python: str) -> bool:
    """Make the compiled core, unless it is there already; whether it is there now."""
    if not has_compiler(python):
        say("run.py: no C compiler (or no headers of this Python) is here, so pure Python runs")
        return False
    started = time.monotonic()
    progress = None
    with open(COMPILE_LOG, "w") as log:
        process = subprocess.Popen(
            [python, os.path.join(ROOT, "tools", "mypyc_build", "core.py"), COMPILED],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        for line in process.stdout or ():
            log.write(line)
            step = re.match(r"progress (\d+) (\d+) (.*)", line)
            if step:
                if progress is None:
                    say("run.py: compiling the core (once for these sources; some minutes)")
                    progress = Progress(1)
                progress.total = int(step.group(2)) or 1
                progress.done = int(step.group(1))
                progress.move("compiling " + step.group(3) if int(step.group(2)) else step.group(3))
            elif line.startswith("compiled "):
                write(CURRENT, line[len("compiled ") :].strip())
    if progress is not None:
        progress.close()
    if process.wait() != 0:
        say("run.py: the core could not be compiled, so pure Python runs; %s says why" % COMPILE_LOG)
        return False
    if progress is not None:
        say("run.py: the core is compiled after %d s" % (time.monotonic() - started))
    return True


def use_compiled(python: str, words: List[str]) -> None:
    """Point gantrymq at the compiled core where there is one of these sources; say it when there is one of others."""
    os.environ.pop("GANTRY_COMPILED", None)
    if os.environ.get("GANTRY_PURE", "0") not in ("", "0"):
        return
    directory = read(CURRENT)
    problem = why_unusable(python, directory) if directory else ""
    if directory and not problem:
        os.environ["GANTRY_COMPILED"] = directory
    elif directory:
        warn("the compiled core is not used, pure Python runs: %s; 'python3 run.py compile' makes it anew" % problem)
    elif words[:1] and words[0] in SERVERS and has_compiler(python):
        warn("pure Python runs; 'python3 run.py compile' makes a faster, compiled core in some minutes")


def warn(text: str) -> None:
    """On standard error: what a command prints may be read by a program."""
    sys.stderr.write("run.py: %s\n" % text)
    sys.stderr.flush()


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
        *("--group", "dev", "--group", "docs", "--group", "release"),
        "--universal",
        "--no-config",
    ]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header", "--quiet"]
    environment = {key: value for key, value in os.environ.items() if not key.endswith("FIND_LINKS")}
    return subprocess.call([*command, "-o", "requirements.lock", *sys.argv[2:]], cwd=ROOT, env=environment)


def level_for(command: str, words: List[str]) -> str:
    """What must be installed for a command."""
    if command == "compile":
        return COMPILER
    if command != "gantry" or (words[:1] and words[0] in WITH_SPARK):
        return EVERYTHING
    return SERVER if words[:1] and words[0] in SERVERS else TOOLS


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") or sys.argv[1] not in COMMANDS:
        say(USAGE)
        return 0 if len(sys.argv) == 2 and sys.argv[1] in ("-h", "--help") else 2
    command, rest = sys.argv[1], sys.argv[2:]
    if command == "lock":
        return write_lock()
    python = ready_venv(level_for(command, rest))
    if command == "compile":
        return 0 if compile_core(python) else 1
    if command == "bench":
        compile_core(python)
    if command != "test":
        use_compiled(python, rest if command == "gantry" else [])
    programs = {
        "demo": ["-m", "gantrymq.cli.main", "demo"],
        "gantry": ["-m", "gantrymq.cli.main"],
        "bench": ["-m", "benchmarks"],
        "docs": ["-m", "tools.website"],
        "test": [os.path.join(ROOT, "tools", "checks.py")],
    }
    if command in ("bench", "docs"):
        os.chdir(ROOT)  # benchmarks and tools are no part of what is installed
    os.environ["GANTRY_CALLED_AS"] = "python3 %s gantry" % os.path.relpath(__file__)
    return os.execv(python, [python, *programs[command], *rest])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
