"""The harness of interrupts: no point of a short run is broken, and a client broken on purpose is found out.

Long: ``python -m tests.interrupts``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

LAST = re.compile(r"interrupts: (\d+) points, (\d+) broken")
BROKEN = """
import sys
from gantrymq.client import (lite_pull_consumer, transaction_producer)
from gantrymq.client.connection import portal
{change}
from tests.interrupts import __main__ as harness, scenario
scenario.WAIT_S = 0.7
sys.exit(harness.main(sys.argv[1:]))
"""


def play(*arguments: str, program: str | None = None) -> tuple[int, int, str]:
    start = ["-m", "tests.interrupts"] if program is None else ["-c", program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, *start, *arguments], capture_output=True, text=True, timeout=280, env=environment
    )
    figures = LAST.search(done.stdout)
    assert figures is not None, done.stdout + done.stderr
    assert (done.returncode != 0) == (int(figures[2]) > 0)
    return int(figures[1]), int(figures[2]), done.stdout


@pytest.mark.slow
def test_an_interrupt_at_any_place_of_a_call_leaves_nothing_behind() -> None:
    points, broken, said = play("--only", "send")
    assert broken == 0 and points > 50, said


@pytest.mark.slow
@pytest.mark.parametrize("only", ["poll", "receive"])
def test_an_interrupt_in_poll_or_receive_loses_no_message(only: str) -> None:
    points, broken, said = play("--only", only)
    assert broken == 0 and points > 50, said


@pytest.mark.slow
def test_an_interrupt_at_places_of_a_whole_life_leaves_nothing_behind() -> None:
    points, broken, said = play("--every", "17", "--first", "5")
    assert broken == 0 and points > 80, said


@pytest.mark.slow
def test_storms_of_signals_leave_nothing_behind() -> None:
    points, broken, said = play("--storms", "8", "--seed", "1")
    assert broken == 0 and points > 40, said


@pytest.mark.slow
@pytest.mark.parametrize(("handler", "only"), [("call", "send"), ("close", "send_batch")])
def test_a_signal_handler_may_call_the_client_itself(handler: str, only: str) -> None:
    points, broken, said = play("--only", only, "--handler", handler)
    assert broken == 0 and points > 10, said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "only", "every", "found"),
    [
        ("portal.Portal._abandon = lambda self, call: None", "send_in", 18, "no call is left on the loop"),
        ("transaction_producer.TransactionProducer.interrupted = lambda self, half: None", "send_in", 18, "in flight"),
        ("lite_pull_consumer.LitePullConsumer.give_back_last = lambda self, unless=None: None", "poll", 1, "are lost"),
    ],
)
def test_a_client_that_is_broken_on_purpose_is_found_out(change: str, only: str, every: int, found: str) -> None:
    _, broken, said = play("--only", only, "--every", str(every), program=BROKEN.format(change=change))
    assert broken > 0 and found in said, said
