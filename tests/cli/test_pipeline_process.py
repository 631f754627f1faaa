"""How a command that runs a Spark job ends, with other programs in the place of Spark."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from gantrymq.cli.pipeline_process import sentence_of
from gantrymq.errors import ConfigError

PROGRAM = r"""
import subprocess, sys
from gantrymq.cli.pipeline_process import run_job
from gantrymq.errors import ConfigError

JAVA = 'printf "java.io.IOException: no disk\n\tat org.apache.spark.Job.run(Job.scala:7)\n\t... 7 more\n" >&2'

def fail(text):
    print("failed:", text)
    sys.exit(1)

def work():
    subprocess.run(["sh", "-c", JAVA])
    if sys.argv[1] == "fail":
        raise ConfigError("give the name servers")
    if sys.argv[1] == "wait":
        print("ready", flush=True)
        subprocess.run(["sh", "-c", "trap 'echo interrupted >&2' INT; sleep 60; sleep 60"])
    return "done"

print(run_job(work, fail))
"""


def started(what: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "status", "said"), [("go", 0, "done\n"), ("fail", 1, "failed: give the name servers\n")]
)
def test_the_result_or_one_sentence_and_no_frames_of_java(what: str, status: int, said: str) -> None:
    program = started(what)
    assert program.communicate(timeout=60) == (said, "java.io.IOException: no disk\n")
    assert program.returncode == status


def test_ctrl_c_ends_it_at_once_and_says_one_line() -> None:
    """A person's Ctrl-C reaches all processes of the terminal."""
    program = started("wait")
    assert program.stdout is not None and program.stderr is not None
    assert program.stdout.readline() == "ready\n"
    os.killpg(program.pid, signal.SIGINT)
    assert program.stdout.readline() == "stopped; run the same command again to continue\n"
    assert program.wait(60) == 130
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


SPARK_TEXT = """[STREAM_FAILED] Query [id = 9c90] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed to plan:
  File "daemon.py", line 3, in main
gantrymq.errors.ConfigError: a stream has no end SQLSTATE: 38000
"""


def test_what_a_person_can_act_on() -> None:
    assert sentence_of(ConfigError("give: the name servers")) == "give: the name servers"
    assert sentence_of(RuntimeError(SPARK_TEXT)) == "a stream has no end"
    ended = type("Py4JNetworkError", (Exception,), {})("Answer from Java side is empty")
    assert "Java process has ended" in sentence_of(ended) and "run.driver_memory" in sentence_of(ended)
    assert sentence_of(RuntimeError("\n[CANNOT_PARSE] the first line\nsecond")) == "[CANNOT_PARSE] the first line"
    assert sentence_of(RuntimeError()) == "RuntimeError"
