"""A program that polls gets Ctrl-C again and again, and loses no message."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gantrymq
from gantrymq import Message
from tests.kill.server import Server

COUNT, ROUNDS, LONGEST_S = 1_500, 8, 60.0

POLLS = """
import sys, time, gantrymq
with open(sys.argv[2], "a") as done, gantrymq.LitePullConsumer(
    "points", name_servers=sys.argv[1], from_where=gantrymq.ConsumeFromWhere.FIRST_OFFSET, auto_commit_interval_ms=20
).subscribe("Orders") as consumer:
    print("ready", flush=True)
    while True:
        for message in consumer.poll():
            time.sleep(0.002)
            done.write(message.body.decode() + "\\n")
            done.flush()
"""
RECEIVES = """
import sys, time, gantrymq
with open(sys.argv[2], "a") as done, gantrymq.SimpleConsumer(
    "points", name_servers=sys.argv[1], from_where=gantrymq.ConsumeFromWhere.FIRST_OFFSET
).subscribe("Orders") as consumer:
    print("ready", flush=True)
    while True:
        for message in consumer.receive(8, 2_000):
            time.sleep(0.001)
            done.write(message.body.decode() + "\\n")
            done.flush()
            consumer.ack(message)
"""


@pytest.mark.kill
@pytest.mark.parametrize("program", [POLLS, RECEIVES], ids=["polls", "receives"])
def test_a_program_that_polls_and_gets_ctrl_c_loses_nothing(tmp_path: Path, program: str) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    print(f"seed {seed}")
    server, done = Server(tmp_path, "ASYNC_FLUSH"), tmp_path / "done"
    server.start()
    try:
        sent = {f"o-{number}" for number in range(COUNT)}
        with gantrymq.Producer("orders", name_servers=server.name_servers) as producer:
            producer.send_batches([Message("Orders", name) for name in sorted(sent)])
        for _ in range(ROUNDS):
            _run(program, server, done, lambda: time.sleep(rng.uniform(0.05, 0.5)))
        assert 0 < len(_processed(done)) < COUNT, "the interrupts came in the middle of the work"

        def rest() -> None:
            over = time.monotonic() + LONGEST_S
            while _processed(done) != sent and time.monotonic() < over:
                time.sleep(0.05)

        _run(program, server, done, rest)
        lost = sent - _processed(done)
        assert not lost, f"seed {seed}: {len(lost)} of {COUNT} are lost"
    finally:
        server.kill()


def _run(program: str, server: Server, done: Path, wait: Callable[[], None]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", program, server.name_servers, str(done)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    wait()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONGEST_S)
    assert b"KeyboardInterrupt" in errors


def _processed(done: Path) -> set[str]:
    return set(done.read_text().split())
