"""How long the operations of a local cluster take in a test: start, end, a message, advancing the time by a minute.

``python -m benchmarks.local_cluster [--clusters 200]`` prints the elapsed milliseconds (median, 90th percentile) and
the processor time of this process (median). While the machine has other work, only the processor time is meaningful.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gantrymq import LocalTransactionState, Message, MessageView, Producer, PushConsumer, TransactionProducer
from gantrymq.testing import LocalCluster

ADDRESS = "127.0.0.1:9876"


class Clock:
    """Collects durations by operation."""

    def __init__(self) -> None:
        self.taken: dict[str, list[tuple[float, float]]] = {}

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        started, worked = time.perf_counter(), time.process_time()
        yield
        passed = (time.perf_counter() - started) * 1000, (time.process_time() - worked) * 1000
        self.taken.setdefault(what, []).append(passed)

    def lines(self) -> Iterator[str]:
        for what, taken in self.taken.items():
            ordered = sorted(passed for passed, _ in taken)
            middle, tenth = statistics.median(ordered), ordered[int(len(ordered) * 0.9)]
            yield f"{what:44} {middle:8.2f} {tenth:8.2f} {statistics.median(worked for _, worked in taken):8.2f}"


class Unknown:
    """Answers UNKNOWN, so that a check decides every transaction."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


def empty(clock: Clock) -> None:
    """A test that does nothing with the fixture."""
    cluster = LocalCluster(virtual_time=True)
    with clock.measure("an empty cluster: start"):
        cluster.start()
    with clock.measure("an empty cluster: close"):
        cluster.close()


def consumed(clock: Clock) -> None:
    """A test that sends a message to a consumer."""
    with clock.measure("a test: a message sent and consumed"), LocalCluster(virtual_time=True) as cluster:
        cluster.create_topic("orders")
        consumer = PushConsumer("c", name_servers=ADDRESS, listener=lambda found: None).subscribe("orders")
        with Producer("p", name_servers=ADDRESS) as producer, consumer:
            producer.send(Message("orders", b"x"))
            cluster.settle()


def checked(clock: Clock) -> None:
    """A test that waits for a check-back, and for another minute."""
    with (
        LocalCluster(virtual_time=True) as cluster,
        TransactionProducer("p", name_servers=ADDRESS, listener=Unknown()) as producer,
    ):
        producer.send_in_transaction(Message("orders", b"x"))
        with clock.measure("6 s until a check-back"):
            cluster.advance(6)
        with clock.measure("60 s with a producer"):
            cluster.advance(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200, help="how many of each")
    count = parser.parse_args().clusters
    clock = Clock()
    works: tuple[Callable[[Clock], None], ...] = (empty, consumed, checked)
    for work in works:
        work(Clock())  # imports and the like
    for _ in range(count):
        for work in works:
            work(clock)
    print(f"{'ms':44} {'median':>8} {'90 %':>8} {'CPU':>8}")
    print("\n".join(clock.lines()))


if __name__ == "__main__":
    main()
