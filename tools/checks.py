"""Every check of the project, one after another: what ``python3 run.py test`` and CI run.

``run.py test`` runs all stages but ``compiled``; ``run.py test lint tests`` only those named; what follows ``--`` goes
to pytest. All stages test pure Python, except ``compiled``.
Each stage shows its own output. The end is a table of stages with their times and a plain closing line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SOURCES = ["src", "tests", "tools", "run.py", "setup.py"]

# A stage that hangs must not eat the time of CI: seconds after which it is ended and counts as failed.
STAGE_LIMIT_SECONDS = 30 * 60


def run(*command: str | Path, output: Path | None = None) -> bool:
    """Run one program in the repository; whether it succeeded. Its output is shown, or goes to a file."""
    shown = " ".join(str(part).removeprefix(f"{BIN}/") for part in command)
    print(f"$ {shown}", flush=True)
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
    with output.open("w") if output is not None else nullcontext() as file:
        try:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT if file is not None else None,
                timeout=STAGE_LIMIT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"ended after {STAGE_LIMIT_SECONDS} s without a result", flush=True)
            return False
    return done.returncode == 0


def lint(_: list[str]) -> bool:
    present = [source for source in [*SOURCES, "examples", "benchmarks"] if (ROOT / source).exists()]
    checked = run(BIN / "ruff", "check", *present)
    return run(BIN / "ruff", "format", "--check", *present) and checked


def types(_: list[str]) -> bool:
    checked = run(BIN / "mypy")
    return run(BIN / "mypy", "run.py", "setup.py", "tools") and checked


def layers(_: list[str]) -> bool:
    return run(BIN / "lint-imports")


def tests(arguments: list[str]) -> bool:
    # Two processes on two cores: much of what the tests do is waiting for processes of their own.
    workers = ["-n", "2", "--dist", "loadgroup"]
    return run(
        BIN / "python", "-m", "pytest", "--durations=10", *workers, "-m", "not interop and not compiled", *arguments
    )


OWN_SERVERS = [f"tests/interop/test_{name}.py" for name in ("store_swap", "pop_swap", "same_name")]
"""Interop tests that share no server with others. They run beside the rest: all of them wait most of the time."""


def interop(arguments: list[str]) -> bool:
    pytest: list[str | Path] = [BIN / "python", "-m", "pytest", "--durations=10", "-rs", "-m", "interop"]
    rest: list[str | Path] = [*pytest, "tests/interop", *arguments]
    if arguments:
        return run(*rest) or again(*rest)
    rest += [f"--ignore={path}" for path in OWN_SERVERS]
    own: list[str | Path] = [*pytest, *OWN_SERVERS, "-o", "cache_dir=.pytest_cache/own-servers"]
    with tempfile.TemporaryDirectory() as directory:
        shown = Path(directory, "own-servers.log")
        os.environ["GANTRY_INTEROP_TOLD"] = str(Path(directory, "own-servers.json"))  # for docs/compatibility.md
        with ThreadPoolExecutor() as threads:
            beside = threads.submit(run, *own, output=shown)
            done = run(*rest)
            done_beside = beside.result()
        del os.environ["GANTRY_INTEROP_TOLD"]
        print(f"\n{shown.read_text()}", flush=True)
    return (done or again(*rest)) and (done_beside or again(*own))


def again(*command: str | Path) -> bool:
    # Several JVMs share the cores, and much of what they do waits for a time: what fails twice is broken.
    print("\nwhat failed, once more:", flush=True)
    return run(*command, "--last-failed", "--last-failed-no-failures", "none")


def demo(_: list[str]) -> bool:
    return run(BIN / "python", ROOT / "tools" / "demo_without_java.py")


COMPILED_TESTS = [
    f"tests/{name}" for name in ("admin", "broker", "cli", "client", "golden", "kill", "message", "nameserver")
]
COMPILED_TESTS += [f"tests/{name}" for name in ("protocol", "remoting", "runtime", "store", "transactions")]
COMPILED_TESTS += ["tests/packaging/test_compiled_wheel.py"]
"""What tests the compiled core. The simulation and the broken brokers of tests/holes replace parts of a module while it
runs; they stay pure. The interop tests: ``run.py test compiled -- tests/interop -m interop``."""


def compiled(arguments: list[str]) -> bool:
    """Compile the core, unless that is done, and run on it what tests it; ``arguments`` replace the choice of tests."""
    core = ROOT / "tools" / "mypyc_build" / "core.py"
    home = Path(sys.prefix) / "compiled"
    with tempfile.TemporaryDirectory() as directory:
        printed = Path(directory, "core.log")
        print("compiling the core; this takes minutes when its sources have changed", flush=True)
        made = run(BIN / "python", core, home, output=printed)
        text = printed.read_text()
    if not made:
        print(text, flush=True)
        return False
    os.environ["GANTRY_COMPILED"] = text.splitlines()[-1].removeprefix("compiled ")
    workers = ["-n", "2", "--dist", "loadgroup", "-m", "not interop and not spark"]
    try:
        return run(BIN / "python", "-m", "pytest", "--durations=10", *(arguments or [*workers, *COMPILED_TESTS]))
    finally:
        del os.environ["GANTRY_COMPILED"]


STAGES: dict[str, Callable[[list[str]], bool]] = {
    "lint": lint,
    "types": types,
    "layers": layers,
    "tests": tests,
    "interop": interop,
    "demo": demo,
    "compiled": compiled,
}
ONLY_WHEN_NAMED = {"compiled"}


def main() -> int:
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    chosen, for_pytest = (
        arguments[:split] or [name for name in STAGES if name not in ONLY_WHEN_NAMED],
        arguments[split + 1 :],
    )
    if unknown := [name for name in chosen if name not in STAGES]:
        print(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
        return 2
    results: list[tuple[str, bool, float]] = []
    for number, name in enumerate(chosen, start=1):
        print(f"\n=== {number}/{len(chosen)} {name}", flush=True)
        started = time.monotonic()
        results.append((name, STAGES[name](for_pytest), time.monotonic() - started))
    print("\n=== stages")
    for name, good, seconds in results:
        print(f"{name:8} {'passed' if good else 'FAILED'} {seconds:7.1f} s")
    failed = sum(not good for _, good, _ in results)
    print(f"stages: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
