"""Starts GantryMQ's broker for a measurement, in pure Python or compiled."""

from __future__ import annotations

import compileall
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import gantrymq
from benchmarks import apache, processes
from benchmarks.apache import NotPossible
from benchmarks.processes import Running
from gantrymq.build_info import COMPILED, PURE, build_info, why_unusable
from gantrymq.demo.ports import free_port

PURE_ENVIRONMENT: Final[Mapping[str, str | None]] = {PURE: "1", COMPILED: None}
CURRENT: Final = Path(__file__).parents[1] / ".venv" / "compiled" / "current"
"""The file into which ``run.py compile`` writes the directory of its build."""
_HOW: Final = "make one with 'python3 run.py compile', or name its directory in GANTRY_COMPILED"


def compiled_environment(environment: Mapping[str, str], current: Path = CURRENT) -> dict[str, str | None]:
    """The variables to set (None: to remove) so that a child process runs the compiled core. Raises NotPossible."""
    pure_gone: dict[str, str | None] = {PURE: None}
    directory = environment.get(COMPILED) or (current.read_text().strip() if current.exists() else "")
    if directory:
        if problem := why_unusable(Path(directory)):
            raise NotPossible(f"--compiled: the compiled core in {directory} cannot be used: {problem}; {_HOW}")
        return pure_gone | {COMPILED: directory}
    if build_info().compiled:  # the compiled modules are beside the sources, as in a wheel
        return pure_gone
    raise NotPossible(f"--compiled: there is no compiled core; {_HOW}")


@contextlib.contextmanager
def gantry(directory: Path, flush: str, environment: Mapping[str, str | None] | None = None) -> Iterator[Running]:
    """Our name server and broker, each a process; ``Running`` describes the broker alone.

    ``environment``: variables to set or (None) to remove for both.
    """
    directory.mkdir(parents=True)
    # pip compiles to byte code when it installs, and Apache's jars contain byte code. If PYTHONDONTWRITEBYTECODE is
    # set, each start would compile all modules, which takes 0.25 s.
    compileall.compile_dir(Path(gantrymq.__file__).parent, quiet=1)
    log = directory / "output.log"
    command = [sys.executable, "-m", "gantrymq.cli.main"]
    name_port, broker_port = free_port(), free_port()
    options = ["--listen-port", str(name_port), "--log-level", "warning"]
    with apache.child([*command, "nameserver", *options], log, environment=environment) as name_server:
        processes.await_route(name_port, name_server, time.monotonic(), log, expect=None)
        conf = apache.broker_conf(directory, flush, f"127.0.0.1:{name_port}", broker_port)
        started = time.monotonic()
        options = ["-c", str(conf), "--log-level", "warning"]
        with apache.child([*command, "broker", *options], log, environment=environment) as process:
            processes.await_route(name_port, process, started, log)
            start_s = time.monotonic() - started
            yield Running(f"127.0.0.1:{name_port}", process.pid, start_s, f"127.0.0.1:{broker_port}")


def runs_compiled(running: Running) -> bool:
    """Whether compiled modules of GantryMQ are in the memory of the process."""
    return "gantrymq__mypyc" in Path(f"/proc/{running.pid}/maps").read_text()


def check_build(running: Running, *, compiled: bool) -> None:
    """Raise NotPossible when the process does not run the requested build."""
    if runs_compiled(running) != compiled:
        wanted = "compiled core" if compiled else "pure Python"
        raise NotPossible(f"the broker does not run the {wanted} (process {running.pid}, {os.fspath(sys.executable)})")
