"""``python -m benchmarks.old_messages``: the processor time of the store for a message that consumers read late.

Messages of this process's last 256 MiB are handed out as they lie in the log. Older ones, and those of an earlier
process, are checked first (size, place, CRC of the body). Both kinds are read here from the same store, in turns, in
answers of ``--batch`` messages, and the third way is the check of one message after the other, which happens when
something is damaged. Prints microseconds a message of the best round
(a busy machine counts time that others took), and how they compare to fresh ones.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator

from gantrymq.message.queues import LogOffset
from gantrymq.protocol.stored_message import pack_host
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.store.config import StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.reading import QueueReader
from gantrymq.store.values import NewRecord

HOST = pack_host("127.0.0.1:10911")
PROPERTIES = "KEYS\x01order-42\x02UNIQ_KEY\x017F0000016D98E784C4C96794C4000000\x02WAIT\x01true\x02TAGS\x01TagA\x02"
APPENDED_AT_ONCE = 500


def opened(root: str) -> MessageStore:
    return MessageStore.open(StoreConfig(root), OsDisk(), SystemClock(), HOST)


async def fill(store: MessageStore, messages: int, body: bytes, queues: int) -> None:
    for first in range(0, messages, APPENDED_AT_ONCE):
        count = min(APPENDED_AT_ONCE, messages - first)
        places = store.append([NewRecord("T", (first + n) % queues, body, PROPERTIES, 0, HOST) for n in range(count)])
        safe: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        store.safety.when_safe(LogOffset(places[-1].end), safe.set_result)
        await safe


def read_all(store: MessageStore, batch: int) -> float:
    """Microseconds of this thread for a message."""
    count = 0
    started = time.thread_time()
    for topic, queue in store.queues():
        offset, end = store.queue_range(topic, queue)
        while offset < end:
            answer = store.get(topic, queue, offset, batch, 4 << 20)
            offset = answer.next_offset
            count += answer.count
    return (time.thread_time() - started) * 1e6 / count


@contextlib.contextmanager
def one_by_one() -> Iterator[None]:
    quick = QueueReader._checked
    QueueReader._checked = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        QueueReader._checked = quick  # type: ignore[method-assign]


async def measure(root: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Kind of read to the least of its rounds."""
    fresh = opened(root)
    await fill(fresh, arguments.messages, b"x" * arguments.body, arguments.queues)
    await fresh.flush_everything()
    rounds: dict[str, list[float]] = {"fresh": [], "old": [], "old, one by one": []}
    for _ in range(arguments.rounds):
        rounds["fresh"].append(read_all(fresh, arguments.batch))
    await fresh.close()
    old = opened(root)
    for _ in range(arguments.rounds):
        rounds["old"].append(read_all(old, arguments.batch))
        with one_by_one():
            rounds["old, one by one"].append(read_all(old, arguments.batch))
    await old.close()
    return {name: min(values) for name, values in rounds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.old_messages", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--body", type=int, default=200, help="bytes")
    parser.add_argument(
        "--queues", type=int, default=4, help="they share the log, so neighbours have gaps between them"
    )
    parser.add_argument("--batch", type=int, default=32, help="messages in an answer")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        found = asyncio.run(measure(root, arguments))
    for name, value in found.items():
        print(f"{name:<16} {value:6.2f} us a message, {value / found['fresh']:5.2f} of a fresh one")


if __name__ == "__main__":
    main()
