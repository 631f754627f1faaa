"""Runs all checks of the project, one after another: ``python3 run.py test`` and CI call it.

``run.py test`` runs all stages except those in ONLY_WHEN_NAMED, ``run.py test lint tests`` only the named ones, and
``run.py test quick`` those in SHORT. Arguments after ``--`` are passed to pytest. All stages except ``compiled`` and
``compiled-interop`` test pure Python, and all but ``spark42`` the Spark of the lock. Each stage shows its own output.
At the end there are the last lines of every stage that failed, a table of the stages with their times, and one line
with the result. No test is run twice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SOURCES = ["src", "tests", "tools", "run.py", "setup.py"]
# Programs among the tests, which people start by themselves, and what these and other tests are built on.
TYPED_TESTS = tuple(
    f"tests/{name}"
    for name in (
        "cancellation", "doctor", "examples", "golden", "interrupts", "kill", "nameserver", "observability",
        "remoting", "simulation", "support", "upgrade",
    )
)  # fmt: skip

# A stage that takes longer is ended and counts as failed, so that a stage that hangs does not block CI.
STAGE_LIMIT_SECONDS = 30 * 60
LAST_LINES = 120
"""How much of what a failed stage printed is shown again at the end. CI keeps the end of a log when it is long."""
RUNNING_TESTS = "GANTRY_RUNNING_TESTS"
"""Names a directory in which each process of pytest writes which test it runs; see ``tests/support/watched.py``."""


def run(*command: str | Path, output: Path | None = None) -> bool:
    """Run one program in the repository. Its output is shown, or written to a file. Returns whether it succeeded."""
    print("$ " + " ".join(str(part).removeprefix(f"{BIN}/") for part in command), flush=True)
    with tempfile.TemporaryDirectory() as running:
        variables = {**environment(), RUNNING_TESTS: running}
        if output is not None:
            last: deque[bytes] = deque(maxlen=LAST_LINES)
            with output.open("a") as file:
                good = _ended(_start(command, variables, file), running, last)
            printed = deque(output.read_bytes().splitlines(keepends=True), LAST_LINES)
            printed.extend(last)
            _last_words.append((good, printed))
            return good
        if sys.stdout.isatty():  # whoever sits there can scroll
            return _ended(_start(command, variables, None), running, deque())
        process = _start(command, variables, subprocess.PIPE)
        last = deque(maxlen=LAST_LINES)
        # A thread that nobody needs to wait for: what the program has started may keep the pipe open.
        copying = threading.Thread(target=_copy, args=(process.stdout, last), daemon=True)
        copying.start()
        good = _ended(process, running, last)
        copying.join(5)
        _last_words.append((good, last))
        return good


_last_words: list[tuple[bool, deque[bytes]]] = []
"""Of each program of a stage: whether it succeeded, and the last lines that it printed."""


def _start(
    command: tuple[str | Path, ...], variables: dict[str, str], output: IO[str] | int | None
) -> subprocess.Popen[bytes]:
    errors = None if output is None else subprocess.STDOUT
    return subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
    )


def _copy(pipe: IO[bytes], last: deque[bytes]) -> None:
    for line in pipe:
        last.append(line)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def _ended(process: subprocess.Popen[bytes], running: str, last: deque[bytes]) -> bool:
    """Wait for a program. One that takes too long is ended, and the tests that it was running are named."""
    try:
        if process.wait(STAGE_LIMIT_SECONDS) == 0:
            return True
        lines = _stacks(running)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        lines = [f"ended after {STAGE_LIMIT_SECONDS} s without a result\n"]
        lines += _noted(running, "*.failed") + _stacks(running)
        lines += _noted(running, "gw*[0-9]") + _noted(running, "pytest")
    except BaseException:
        process.kill()
        raise
    print("".join(lines), end="", flush=True)
    last.extend(line.encode() for line in lines)
    return False


def _noted(running: str, names: str) -> list[str]:
    """What the processes of pytest have written into files of such names."""
    files = sorted(Path(running).glob(names))
    return [line for file in files for line in file.read_text().splitlines(keepends=True)]


def _stacks(running: str) -> list[str]:
    """Where each thread stood of tests that survived their time limits. Of others there is the name only."""
    files = [file.read_text().splitlines(keepends=True) for file in sorted(Path(running).glob("*.stuck"))]
    return [line for lines in files if len(lines) > 1 for line in lines]


def environment() -> dict[str, str]:
    """The environment of the programs of the stages. The commands of this environment come first on the PATH.

    PYTHONDONTWRITEBYTECODE is removed: the tests start hundreds of processes, and without stored byte code each of them
    would compile every module of the package again.
    """
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}


def lint(_: list[str]) -> bool:
    present = [source for source in [*SOURCES, "examples", "benchmarks"] if (ROOT / source).exists()]
    checked = run(BIN / "ruff", "check", *present)
    checked = run(BIN / "ruff", "format", "--check", *present) and checked
    checked = run(BIN / "bandit", "--quiet", "--configfile", "pyproject.toml", "--recursive", "src") and checked
    return run(BIN / "python", ROOT / "tools" / "advisories.py") and checked


def types(_: list[str], output: Path | None = None, before: Sequence[str] = ()) -> bool:
    checked = run(*before, BIN / "mypy", output=output)
    others = ("run.py", "setup.py", "tools", "benchmarks", *TYPED_TESTS)
    checked = run(*before, BIN / "mypy", *others, output=output) and checked
    stricter = ROOT / "tools" / "mypyc_build" / "core.py"  # mypyc is stricter than mypy
    return run(*before, BIN / "python", stricter, "--check", output=output) and checked


def layers(_: list[str]) -> bool:
    return run(BIN / "lint-imports")


def docs(_: list[str]) -> bool:
    """The documentation site, in a directory that nobody keeps."""
    with tempfile.TemporaryDirectory() as directory:
        return run(BIN / "python", "-m", "tools.website", "--to", directory)


PYTEST = (BIN / "python", "-m", "pytest", "--durations=10")
WORKERS = ("-n", "4", "--dist", "worksteal")
"""Four processes for two cores: tests wait for processes and disks. Of the 401 s of broker and client in
one process, 155 s were processor time. A process with nothing left takes half of what another one has: MariaDB's tests
are slow and stand beside each other, and kept one process busy for five minutes behind the others."""
WHOLE = "not interop and not compiled and not clusters"
"""The marks that the stage tests leaves out: each of them has a stage of its own."""
UNIT = ("not interop", "not compiled", "not clusters", "not kill", "not spark", "not packaging", "not slow")
"""The marks of pyproject.toml that the stage unit leaves out."""


def unit(arguments: list[str]) -> bool:
    """What somebody runs between two edits: properties try fewer examples than in the stage ``tests``."""
    return run(*PYTEST, *WORKERS, "--hypothesis-profile", "short", "-m", " and ".join(UNIT), *arguments)


def beside_types(stage: Callable[[list[str]], bool], arguments: list[str], *before: str) -> bool:
    """A stage, and the stage ``types`` at the same time: the type checker is one process, and tests leave it part of a
    core. What it printed is shown behind the tests. ``before``: words in front of its programs."""
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor() as threads:
        shown = Path(directory, "types.log")
        beside = threads.submit(types, [], shown, before)
        done = stage(arguments)
        typed = beside.result()
        print(f"\n{shown.read_text()}", flush=True)
    return done and typed


def types_and_unit(arguments: list[str]) -> bool:
    return beside_types(unit, arguments)


def types_and_tests(arguments: list[str]) -> bool:
    """The tests with Spark are the first ones, and leave about one core. The type checker has it, and then the tests
    that wait for no clock of the machine: no limit of theirs passes while Spark's processes go first."""
    if arguments:
        return beside_types(tests, arguments, *YIELDING)
    with ThreadPoolExecutor() as threads, tempfile.TemporaryDirectory() as directory:
        logs = [Path(directory, name) for name in ("types.log", "timeless.log")]
        beside = threads.submit(lambda: (types([], logs[0], YIELDING), timeless_tests(logs[1], YIELDING)))
        done = spark_tests()
        done = all(beside.result()) and done
        for log in logs:
            print(f"\n{log.read_text()}", flush=True)
    return other_tests(*(f"--ignore={place}" for place in TIMELESS)) and done


YIELDING = ("nice", "-n", "19")
TIMELESS = (
    "tests/simulation", "tests/transactions", "tests/protocol", "tests/message", "tests/store", "tests/golden",
    "tests/holes", "tests/cancellation", "tests/client/test_settings_property.py", "tests/test_tidy.py",
    "tests/test_guarantees.py", "tests/test_mypyc_build.py",
)  # fmt: skip
"""Tests that compute, and simulations, which live in a time of their own."""
INTEROP = "tests/interop"
"""Has a stage of its own. Four processes need not read it to find that out."""


def tests(arguments: list[str]) -> bool:
    if arguments:
        return run(*PYTEST, *WORKERS, "-m", WHOLE, *arguments)
    spark = spark_tests()
    return other_tests() and spark


def spark_tests() -> bool:
    """The tests that share one Spark session, in a process of their own. No process beside them goes before theirs:
    Spark waits 10 s for each Python process that it starts, no setting changes that, and on a slow machine that is not
    long."""
    elsewhere = [f"--ignore={place}" for place in (*TIMELESS, INTEROP)]
    return run(*PYTEST, "-m", f"spark and {WHOLE}", "-o", "cache_dir=.pytest_cache/spark", *elsewhere)


def other_tests(*options: str) -> bool:
    return run(*PYTEST, *WORKERS, "-m", f"{WHOLE} and not spark", f"--ignore={INTEROP}", *options)


def timeless_tests(output: Path, before: Sequence[str]) -> bool:
    """Two processes, for the time when nothing is beside them."""
    options = ("-n", "2", "--dist", "worksteal", "-o", "cache_dir=.pytest_cache/timeless")
    marks = f"{WHOLE} and not spark"
    return run(*before, *PYTEST, *options, "-m", marks, *TIMELESS, output=output)


def interop(arguments: list[str]) -> bool:
    if arguments:
        return run(*PYTEST, "-rfEs", "-m", "interop", "tests/interop", *arguments)
    return run(BIN / "python", "-m", "tests.interop.compatibility", "--check")


def interop_guarded(arguments: list[str]) -> bool:
    """The tests of ``interop`` that are about our servers, which enforce TLS and rights here. The released Go client
    has no TLS, so it is tested with users only."""
    guarded = (*PYTEST, "-rfEs", "-m", "interop", "--guarded")
    done = run(*guarded, "--tls", "tests/interop", *arguments)
    return run(*guarded, "tests/interop/test_go_client.py", *arguments) and done


def clusters(arguments: list[str]) -> bool:
    """Spark programs on clusters, through Spark Connect and by spark-pipelines. Each starts several Java processes."""
    return run(*PYTEST, "-m", "clusters", "tests/spark/clusters", "tests/examples/test_declarative.py", *arguments)


def registry(_: list[str]) -> bool:
    """The schema registry of the tests and a real one, which Maven fetches (158 MB), answer the same."""
    return run(BIN / "python", "-m", "tests.spark.registry.contract")


def demo(_: list[str]) -> bool:
    return run(BIN / "python", ROOT / "tools" / "demo_without_java.py")


ON_THE_COMPILED_CORE = ("not pure", "not interop", "not spark", "not (packaging and not compiled)")
"""The tests of the stage ``compiled``: all except those that replace parts of the core while it runs (the mark ``pure``
gives the reason) and those that do not test the core, which are Spark's and those of the pure wheel."""


@contextmanager
def compiled_core() -> Iterator[bool]:
    """Compile the core, unless that is done, and let the programs of a stage use it. Yields False when that failed."""
    with tempfile.TemporaryDirectory() as directory:
        printed = Path(directory, "core.log")
        print("compiling the core; this takes minutes when its sources have changed", flush=True)
        core = ROOT / "tools" / "mypyc_build" / "core.py"
        made = run(BIN / "python", core, Path(sys.prefix) / "compiled", output=printed)
        text = printed.read_text()
    if not made:
        print(text, flush=True)
        yield False
        return
    os.environ["GANTRY_COMPILED"] = text.splitlines()[-1].removeprefix("compiled ")
    try:
        yield True
    finally:
        del os.environ["GANTRY_COMPILED"]


def compiled(arguments: list[str]) -> bool:
    marks = " and ".join(ON_THE_COMPILED_CORE)
    with compiled_core() as made:
        return made and run(*PYTEST, *WORKERS, "-m", marks, *arguments)


def compiled_interop(arguments: list[str]) -> bool:
    with compiled_core() as made:
        return made and interop(arguments)


SPARK_42 = ROOT / ".venv-spark42"
"""The environment of the stage ``spark42``, beside .venv: its own pyspark, and all other packages of .venv."""
SPARK_42_LOCK = ROOT / "tools" / "spark42.txt"


def spark42(arguments: list[str]) -> bool:
    """The tests of the connector on the oldest Spark that is supported; all others run on the newest one."""
    python = SPARK_42 / "bin" / "python"
    options = ("-o", "cache_dir=.pytest_cache/spark42", "-m", WHOLE, "tests/spark")
    return spark42_is_ready(python) and run(python, *PYTEST[1:], *options, *arguments)


def spark42_is_ready(python: Path) -> bool:
    """Make that environment, unless it is there already. Pip fetches 450 MB for it."""
    ready, wanted = SPARK_42 / "ready-for", f"{sys.version}\n{sys.prefix}\n{SPARK_42_LOCK.read_text()}"
    if ready.exists() and ready.read_text() == wanted:
        return True
    print("making .venv-spark42 (once; minutes and 500 MB)", flush=True)
    shutil.rmtree(SPARK_42, ignore_errors=True)
    if not run(BIN / "python", "-m", "venv", "--without-pip", SPARK_42):
        return False
    packages = SPARK_42 / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    # Behind its own packages, so that it finds its own pyspark first.
    (packages / "venv.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    options = ("--require-hashes", "--no-deps", "--no-build-isolation", "--progress-bar", "off", "-r", SPARK_42_LOCK)
    if not run(BIN / "python", "-m", "pip", "--python", python, "install", *options):
        return False
    ready.write_text(wanted)
    return True


STAGES: dict[str, Callable[[list[str]], bool]] = {
    "lint": lint,
    "types": types,
    "layers": layers,
    "docs": docs,
    "unit": unit,
    "types-and-unit": types_and_unit,
    "tests": tests,
    "types-and-tests": types_and_tests,
    "interop": interop,
    "interop-guarded": interop_guarded,
    "demo": demo,
    "clusters": clusters,
    "registry": registry,
    "compiled": compiled,
    "compiled-interop": compiled_interop,
    "spark42": spark42,
}
ONLY_WHEN_NAMED = {
    "types", "unit", "types-and-unit", "tests", "interop-guarded", "clusters", "registry", "compiled",
    "compiled-interop", "spark42",
}  # fmt: skip
"""Stages that run only when they are named. ``types`` and ``tests`` run as ``types-and-tests``. ``tests`` has
all tests of the stage ``unit``."""
SHORT = ["lint", "layers", "docs", "types-and-unit"]
"""The stages of ``quick``."""


def stages_of(named: list[str]) -> list[str]:
    """The stages to run, each once, in the order in which they are named."""
    chosen = [stage for name in named for stage in (SHORT if name == "quick" else [name])]
    return list(dict.fromkeys(chosen or [name for name in STAGES if name not in ONLY_WHEN_NAMED]))


def main() -> int:
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    chosen, for_pytest = stages_of(arguments[:split]), arguments[split + 1 :]
    if unknown := [name for name in chosen if name not in STAGES]:
        print(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}, and quick: {' '.join(SHORT)}")
        return 2
    results: list[tuple[str, bool, float]] = []
    failures: list[str] = []
    for number, name in enumerate(chosen, start=1):
        print(f"\n=== {number}/{len(chosen)} {name}", flush=True)
        started = time.monotonic()
        _last_words.clear()
        results.append((name, STAGES[name](for_pytest), time.monotonic() - started))
        for good, last in _last_words:
            if not good and len(chosen) > 1:
                text = b"".join(last).decode(errors="replace")
                failures.append(f"\n=== {name} failed; the last lines that it printed:\n{text}")
    print("\n".join(failures))
    print("\n=== stages")
    for name, good, seconds in results:
        print(f"{name:16} {'passed' if good else 'FAILED'} {seconds:7.1f} s")
    failed = sum(not good for _, good, _ in results)
    print(f"stages: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
