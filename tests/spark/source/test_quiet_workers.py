from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, traceback
from gantrymq.spark.source import quiet_workers
{call}
for error in (BrokenPipeError("closed"), ConnectionResetError("reset"), ValueError("wrong")):
    try:
        raise error
    except Exception:
        traceback.print_exc()
"""


def printed(call: str) -> str:
    program = PROGRAM.format(call=call)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr


def test_only_closed_connections_are_not_worth_a_traceback() -> None:
    twice = "quiet_workers.silence_closed_connections(); quiet_workers.silence_closed_connections()"
    said = printed(twice)
    assert "ValueError: wrong" in said
    assert "closed" not in said and "reset" not in said


def test_a_program_that_is_no_worker_keeps_its_tracebacks() -> None:
    assert "BrokenPipeError: closed" in printed("quiet_workers.in_worker()")
