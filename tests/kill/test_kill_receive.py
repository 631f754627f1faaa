"""A broker is killed while a simple consumer has messages in hand: each is acknowledged at the broker that comes back,
or comes again.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import gantrymq
from gantrymq import ConsumeFromWhere, GantryError, Message, MessageView
from tests.kill.server import Server

COUNT, ROUNDS, LONGEST_S = 600, 4, 90.0


class Work:
    """What threads have received and acknowledged."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.got: set[str] = set()
        self.acked: set[str] = set()
        self.late: set[str] = set()
        """Received although they were acknowledged."""
        self._lock = threading.Lock()

    def go_on(self, consumer: gantrymq.SimpleConsumer) -> None:
        while not self.ended.is_set():
            try:
                found = consumer.receive(8, 10_000)
            except GantryError:
                time.sleep(0.05)
                continue
            for message in found:
                self._consume(consumer, message)

    def _consume(self, consumer: gantrymq.SimpleConsumer, message: MessageView) -> None:
        body = message.body.decode()
        with self._lock:
            self.got.add(body)
            if body in self.acked:
                self.late.add(body)
        time.sleep(0.005)
        with suppress(GantryError):  # else it comes again
            consumer.ack(message)
            with self._lock:
                self.acked.add(body)


@pytest.mark.kill
def test_what_is_in_hand_is_acknowledged_after_a_kill_or_comes_again(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    server, work = Server(tmp_path, "SYNC_FLUSH"), Work()
    server.start()
    sent = {f"o-{number}" for number in range(COUNT)}
    try:
        with gantrymq.Producer("orders", name_servers=server.name_servers) as producer:
            producer.send_batches([Message("Orders", name) for name in sorted(sent)])
        consumer = gantrymq.SimpleConsumer(
            "points", name_servers=server.name_servers, from_where=ConsumeFromWhere.FIRST_OFFSET,
            call_timeout_ms=20_000, await_duration_ms=1_000,
        )  # fmt: skip
        with consumer.subscribe("Orders"), ThreadPoolExecutor(3) as threads:
            ends = [threads.submit(work.go_on, consumer) for _ in range(3)]
            for _ in range(ROUNDS):
                time.sleep(rng.uniform(0.1, 0.5))
                server.kill()
                time.sleep(rng.uniform(0.0, 0.3))
                server.start()
            over = time.monotonic() + LONGEST_S
            while work.acked != sent and time.monotonic() < over:
                time.sleep(0.05)
            work.ended.set()
            for end in ends:
                end.result(LONGEST_S)
    finally:
        work.ended.set()
        server.kill()
    lost, never = sent - work.acked, sent - work.got
    assert not lost, f"seed {seed}: {len(lost)} of {COUNT} are not acknowledged, {len(never)} never came"
    assert not work.late, f"seed {seed}: {sorted(work.late)} came again although they were acknowledged in time"
