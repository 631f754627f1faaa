"""Runtimes that replace threads, loops or sockets: a client works, or it ends with one sentence. It never hangs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_serve import address, program, server

LIMIT_S = 60.0
"""After that a process has hung."""
WORKS, REFUSED = 0, 3
WAYS = (
    "Producer", "TransactionProducer", "PullConsumer", "PushConsumer", "Transactions", "aio.Producer",
    "aio.PullConsumer",
)  # fmt: skip
REPLACED = [
    (runtime, way, REFUSED, "needs real threads and queues")
    for runtime in ("gevent", "eventlet")
    for way in (WAYS if runtime == "gevent" else ("Producer", "aio.Producer"))
]
LATE = [(runtime, "Producer", REFUSED, "needs real threads and queues") for runtime in ("gevent-late", "eventlet-late")]
WITHOUT_THREADS = [
    *[("gevent-without-threads", way, WORKS, "") for way in ("Producer", "PushConsumer", "Transactions")],
    ("eventlet-without-threads", "Producer", WORKS, ""),
]
LOOPS = [
    ("uvloop", "aio.Producer", WORKS, ""),
    ("asyncio", "executor", WORKS, ""),
    ("asyncio", "running-loop", WORKS, ""),
    ("asyncio", "twice", REFUSED, "which has ended"),
    ("uvloop", "another-loop", REFUSED, "and another one or none runs here"),
    ("asyncio", "no-loop", REFUSED, "none runs here"),
    ("asyncio", "trio", REFUSED, "trio.to_thread.run_sync"),
]
PROCESSES = [
    ("asyncio", "spawn", WORKS, ""),
    ("asyncio", "forkserver", WORKS, ""),
    ("asyncio", "given-away", REFUSED, "make a client there"),
    ("asyncio", "sub-interpreter", REFUSED, "this sub-interpreter of Python may start none"),
    ("asyncio", "signals", WORKS, ""),
    ("asyncio", "open-at-the-end", WORKS, ""),
    ("asyncio", "exit-handler", WORKS, "sent at exit"),
    ("nest_asyncio", "nested", WORKS, ""),
]
MODULES = {"sub-interpreter": "_xxsubinterpreters", "nested": "nest_asyncio"}
"""What some ways need: the first one is there in Python 3.11 and 3.12."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with program(*server(tmp_path_factory.mktemp("runtimes") / "store")) as running:
        found = address(running.ready(), "name server")
        first = [sys.executable, "-m", "gantrymq.cli.main", "message", "send", "strange", "x", "-n", found]
        subprocess.run(first, check=True, capture_output=True, timeout=LIMIT_S)
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "way", "status", "words"), [*REPLACED, *LATE, *WITHOUT_THREADS, *LOOPS, *PROCESSES]
)
def test_it_works_or_says_why_not(
    servers: str, tmp_path: Path, runtime: str, way: str, status: int, words: str
) -> None:
    if way in MODULES and importlib.util.find_spec(MODULES[way]) is None:
        pytest.skip(f"there is no {MODULES[way]} here")
    module = "tests.client.connection.strange_runtime"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, runtime, way, servers, str(tmp_path / "rows.db")],
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    assert words in done.stdout
    assert "Traceback" not in done.stderr or status == WORKS, done.stderr
