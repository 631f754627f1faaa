"""The primary of a group is lost again and again under load, and another broker takes its place by itself.

``python -m tests.kill.election --runs 20 --seed 7`` prints how many transactions were decided, what was wrong, and how
long it took. With ``--way`` several times the ways take turns, a group each; ``--minutes`` ends it.

| way     | what happens to the primary                                   |
|---------|---------------------------------------------------------------|
| kill    | SIGKILL; it is started again some time later                  |
| pause   | SIGSTOP: it is silent, keeps its connections, and goes on later |
| stop    | SIGTERM; it is started again some time later                  |
| handover | it goes on as a replica: ``gantry cluster failover``         |
| cut     | lines of its network are cut, and healed later: ``partings.py``  |
| half    | the same in one direction                                     |
| delay   | lines are slow for a while                                    |

The last three have clients at two places, so that some of them stay on the side of the old primary.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from gantrymq.admin import Admin
from gantrymq.admin.failover import carry_out, planned
from gantrymq.aio import LocalTransactionState, Message, MessageView, Producer, PullConsumer, TransactionProducer
from gantrymq.client.connection.outside import Outside
from gantrymq.errors import GantryError
from gantrymq.runtime.clock import SystemClock
from tests.kill.group import LEFT, NAME, Group, Member
from tests.kill.lines import Lines, Through
from tests.kill.partings import SHAPES, Shape, in_turn
from tests.kill.takeover import COMMIT, FIRST, LOADS, TOPIC, Book, delivered, load, until_known

WAYS: Final = ("kill", "pause", "stop", "handover", *SHAPES)
SETTLED_S: Final = 60.0
LEFT_LOADS, LEFT_FROM = 2, 100
"""How many transactions at a time the clients have that stay on the old side, and the number of the first one."""
DELAYS_S: Final = (0.02, 0.4)
CUT_S: Final = 8.0
"""At most, where the primary stays."""
ON_THE_WAY_S: Final = 2.0
"""A question that was asked before its transaction was decided may wait for so long in a line that is slow, or was cut
and healed, and in a busy client."""
STUCK_S: Final = 30.0
"""If nothing was decided for so long while a line is cut, nothing is going to be."""

OPENING: Final = 64
BACKLOG, BACKLOG_BYTES, BATCH = "backlog", 1024, 900
SLOWEST_FILL: Final = 2_000_000
"""Bytes in a second."""
LARGE: Final = {
    "mappedFileSizeCommitLog": 1 << 30, "mappedFileSizeConsumeQueue": 6_000_000, "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000, "transactionTimeOut": 3_600_000,
}  # fmt: skip
"""Files as people have them, and open half messages that stay open."""


class Load(NamedTuple):
    """What is in the log before the first loss."""

    backlog: int = 0
    """Bytes of plain messages."""
    open: int = 0
    """Half messages that nobody ends."""
    rest_s: float = 0.0
    """Before each loss: a broker that was started again reads its log ahead meanwhile."""
    shape: str = ""
    """A part of the names of the shapes of lines that are used."""

    @property
    def is_large(self) -> bool:
        return bool(self.backlog or self.open)


NOTHING: Final = Load()


class Times(NamedTuple):
    """From the loss of a primary on, in seconds."""

    elected_s: float | None
    """Until the record named another one; None: it did not."""
    decided_s: float
    """Until a client that went on had a transaction decided. Of lines: for how long none was, at the longest; where no
    client reached a primary, since they were healed."""
    shape: str = ""
    """Of lines: which ones."""


class Watched(Book):
    """A book that knows when transactions were decided, and which were asked about behind that."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.goes_on = True
        self.again: set[bytes] = set()
        self.on_the_way = 0
        """Questions that may have been asked before the transaction was decided."""
        self.has_lines = False
        self.moved = 0.0
        """When a line was healed last."""
        self._decided: dict[bytes, float] = {}
        self.count = 0
        """Transactions that were decided by clients that are on nobody's side."""
        self.last = self.longest = 0.0
        """When it grew last, and for how long it did not, since ``watch``."""

    def watch(self) -> None:
        """From now on the longest time counts in which nothing was decided."""
        self.last, self.longest = time.monotonic(), 0.0

    @property
    def still_s(self) -> float:
        """For how long nothing was decided, up to now."""
        return time.monotonic() - self.last

    def decided(self, body: bytes) -> None:
        super().decided(body)
        self._decided[body] = time.monotonic()
        if int(body.partition(b"-")[0]) < LEFT_FROM:
            self.longest = max(self.longest, self.still_s)
            self.count, self.last = self.count + 1, time.monotonic()

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        if message.body in self.answered:
            since = time.monotonic() - max(self._decided[message.body], self.moved)
            if self.has_lines and since < ON_THE_WAY_S:
                self.on_the_way += 1
            else:
                self.again.add(message.body)
        return super().check_local_transaction(message)


async def whole(group: Group, rng: random.Random) -> Member:
    """The primary, some time after all members are in the in-sync set."""
    primary = None
    while primary is None or len(group.record().get("in_sync", ())) < len(group.members):
        await asyncio.sleep(0.1)
        primary = group.primary()
    await asyncio.sleep(rng.uniform(0.2, 1.0))
    return primary


async def lose(group: Group, way: str, rng: random.Random, book: Watched) -> tuple[Times, Member]:
    """Lose the primary. Returns how long it took, and the member to bring back."""
    primary = await whole(group, rng)
    epoch = group.record()["epoch"]
    handed = None
    begun = time.monotonic()
    if way == "kill":
        await asyncio.to_thread(primary.kill)
    elif way == "pause":
        primary.pause()
    elif way == "handover":
        handed = asyncio.create_task(hand_over(group))
    else:
        await asyncio.to_thread(primary.stop)
    while group.record()["epoch"] == epoch:
        await asyncio.sleep(0.02)
    elected = time.monotonic() - begun
    before = len(book.answered)
    while len(book.answered) == before:
        await asyncio.sleep(0.01)
    decided = time.monotonic() - begun
    if handed is not None:
        await handed
    return Times(elected, decided), primary


async def part(group: Group, lines: Lines, shape: Shape, way: str, rng: random.Random, book: Watched) -> Times:
    """Cut lines of the group, or slow them down, and heal them. Raises AssertionError when it stands still for good."""
    primary = await whole(group, rng)
    others = [str(member.number) for member in group.members if member is not primary]
    ways = shape.ways(str(primary.number), tuple(rng.sample(others, len(others))))
    epoch = group.record()["epoch"]
    begun = time.monotonic()
    book.watch()
    if way == "delay":
        lines.slow(ways, *DELAYS_S)
    else:
        lines.cut(ways)
    elected = None
    ends = begun + rng.uniform(1, CUT_S)
    while time.monotonic() < ends or (shape.elects and elected is None) or (shape.goes_on and book.still_s > 1):
        if elected is None and group.record()["epoch"] != epoch:
            elected = time.monotonic() - begun
        stuck = book.still_s if shape.goes_on else time.monotonic() - begun
        assert stuck < STUCK_S, f"{shape.name}: nothing was decided for {STUCK_S} s"
        await asyncio.sleep(0.02)
    lines.heal(broken=rng.random() < 0.5)
    book.moved, count = time.monotonic(), book.count
    if not shape.goes_on:
        book.watch()
    while book.count == count:
        await asyncio.sleep(0.01)
    return Times(elected, book.longest, shape.name)


async def hand_over(group: Group) -> None:
    """As an operator does it."""
    async with Admin(group.name_servers) as admin:
        plan = await planned(admin.brokers, NAME, None, forced=False)
        await carry_out(admin.brokers, plan, lambda _text: None, SystemClock())


async def fill(group: Group, producer: TransactionProducer, load: Load) -> None:
    """Half messages that nobody ends, and then plain ones of another topic: the open halves are the oldest records."""

    async def begin() -> None:
        while opened:
            await producer.begin(Message(TOPIC, opened.pop()))

    opened = [b"open-%d" % number for number in range(load.open)]
    await asyncio.gather(*(begin() for _ in range(OPENING)))
    async with Producer("filler", name_servers=group.name_servers, send_timeout_ms=60_000) as filler:
        batch = [Message(BACKLOG, bytes(BACKLOG_BYTES)) for _ in range(BATCH)]
        for _ in range(load.backlog // (BATCH * BACKLOG_BYTES)):
            await filler.send_batches(batch)
    ended = f", its log ends at {max(path.stat().st_size for path in group.members[0].store.glob('commitlog/*'))}"
    print(f"{load.open} half messages are open, {load.backlog} bytes were sent{ended}", flush=True)


async def play(
    group: Group, book: Watched, rng: random.Random, ways: list[str], extra: Load, lines: Lines | None
) -> tuple[list[Times], Counter[bytes]]:
    """How long it took each time, and what is delivered in the end."""
    times = []
    shapes = {way: in_turn(way, ways.count(way), rng, extra.shape) for way in SHAPES if way in ways}
    async with contextlib.AsyncExitStack() as ends_with:
        producer = await ends_with.enter_async_context(
            TransactionProducer("g", name_servers=group.name_servers, listener=book, end_retries=0)
        )
        consumer = await ends_with.enter_async_context(PullConsumer(name_servers=group.name_servers))
        await until_known(producer)
        await fill(group, producer, extra) if extra.is_large else None
        loads = [asyncio.create_task(load(producer, book, number)) for number in range(LOADS)]
        book.has_lines = lines is not None
        if lines is not None:
            left = await ends_with.enter_async_context(left_behind(group, book))
            loads += [asyncio.create_task(load(left, book, LEFT_FROM + number)) for number in range(LEFT_LOADS)]
        for way in ways:
            await asyncio.sleep(extra.rest_s)
            if way in SHAPES:
                assert lines is not None
                times.append(await part(group, lines, shapes[way].pop(), way, rng, book))
                print(times[-1], flush=True)
                continue
            found, lost = await lose(group, way, rng, book)
            times.append(found)
            await asyncio.sleep(rng.uniform(0.2, 2.0))
            if way == "pause":
                lost.go_on()
            elif way != "handover":
                await asyncio.to_thread(lost.serve)
        book.closed = True
        await asyncio.gather(*loads)
        ends = time.monotonic() + SETTLED_S
        there: Counter[bytes] = Counter()
        while not book.due() <= there.keys() and time.monotonic() < ends:
            with contextlib.suppress(GantryError):
                there = await delivered(consumer)
            await asyncio.sleep(0.2)
        await asyncio.sleep(3)  # whatever would be asked or delivered wrongly comes within the check interval
        return times, await delivered(consumer)


def left_behind(group: Group, book: Watched) -> TransactionProducer:
    """A producer at a place of its own."""
    outside = Outside(network=Through(group.doors_of(LEFT)))
    return TransactionProducer(
        "g", name_servers=group.name_servers, listener=book, end_retries=0, outside=outside, instance_name=LEFT
    )


def run(root: Path, seed: int, ways: list[str], extra: Load = NOTHING) -> tuple[Watched, list[Times]]:
    """One group. Raises AssertionError when a promise is broken."""
    rng = random.Random(seed)
    book = Watched(rng)
    with Lines(random.Random(seed)) if SHAPES.keys() & ways else contextlib.nullcontext() as lines:
        return book, _judged(root, book, rng, ways, extra, lines)


def _judged(
    root: Path, book: Watched, rng: random.Random, ways: list[str], extra: Load, lines: Lines | None
) -> list[Times]:
    limit_s = 60 + (60 + extra.rest_s) * len(ways) + extra.backlog / SLOWEST_FILL
    with Group(root, lines=lines, **(LARGE if extra.is_large else {})) as group:
        times, found = asyncio.run(asyncio.wait_for(play(group, book, rng, ways, extra, lines), limit_s))
    del found[FIRST]
    lost = book.due() - found.keys()
    known = {body: (book.asked[body], body in book.answered) for body in sorted(lost)[:5]}
    assert not lost, f"acknowledged commits are lost (how often asked about, whether answered): {known}"
    doubled = {body: (count, book.asked[body], body in book.answered) for body, count in found.items() if count > 1}
    assert not doubled, f"delivered twice: {doubled}"
    assert all(book.outcomes.get(body) is COMMIT for body in found), "something was delivered that is not committed"
    assert not book.again, f"decided transactions were asked again: {sorted(book.again)[:5]}"
    return times


class Total(NamedTuple):
    """What came of all groups that lost their primary in one way."""

    times: list[Times]
    counts: Counter[str]


WRONG: Final = {
    "lost": "acknowledged commits are lost",
    "doubled": "delivered twice",
    "asked again": "decided transact",
}
"""What a group failed by, and how its error begins."""


def _tell(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    if ordered:
        p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        middle, longest = statistics.median(ordered), ordered[-1]
        print(f"{what} ({len(ordered)}) p50 {middle:.2f} s, p99 {p99:.2f} s, longest {longest:.2f} s")


def _sum_up(way: str, total: Total) -> None:
    times, counts = total
    wrong = ", ".join(f"{counts[name]} {name}" for name in (*WRONG, "else"))
    print(
        f"{way}: {len(times)} losses in {counts['groups']} groups, {counts['decided']} decided transactions, "
        f"{counts['refused']} refused; failed groups: {wrong}"
    )
    if counts["on the way"]:
        print(f"{counts['on the way']} questions were on their way when the transaction was decided")
    for shape in sorted({one.shape for one in times}):
        there = [one for one in times if one.shape == shape]
        print(f"{shape}: {len(there)} times") if shape else None
        _tell("another primary was elected after", [one.elected_s for one in there if one.elected_s is not None])
        _tell("no transaction was decided for", [one.decided_s for one in there])


def _add(total: Total, way: str, seed: int, given: argparse.Namespace) -> None:
    """One group more."""
    times, counts = total
    extra = Load(given.backlog, given.open, given.rest, given.shape)
    counts["groups"] += 1
    with tempfile.TemporaryDirectory() as directory:
        try:
            book, found = run(Path(directory), seed, [way] * given.losses, extra)
        except (AssertionError, TimeoutError) as error:
            counts[next((name for name, begin in WRONG.items() if str(error).startswith(begin)), "else")] += 1
            print(f"{way}, seed {seed}: {error!r}", flush=True)
            if given.keep is not None:
                shutil.copytree(directory, given.keep / f"{way}-{seed}")
        else:
            times.extend(found)
            counts.update({"decided": len(book.answered), "refused": book.refused, "on the way": book.on_the_way})
            longest = max(one.decided_s for one in found)
            print(f"{way}, seed {seed}: {len(book.answered)} decided, longest {longest:.2f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.election", description=__doc__)
    parser.add_argument("--runs", type=int, default=2, help="how many groups for each way")
    parser.add_argument("--losses", type=int, default=10, help="how often each loses its primary")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the first group")
    parser.add_argument("--way", choices=WAYS, action="append", help="how the primary is lost; default: kill")
    parser.add_argument("--minutes", type=float, default=1e9, help="behind which no other group begins")
    parser.add_argument("--backlog", type=int, default=0, help="bytes of messages that are in the log before")
    parser.add_argument("--open", type=int, default=0, help="half messages that are open all the time")
    parser.add_argument("--rest", type=float, default=0.0, help="seconds before each loss, in which brokers read ahead")
    parser.add_argument("--shape", default="", help="a part of the names of the shapes of lines that are used")
    parser.add_argument("--keep", type=Path, help="where stores and logs of a run that failed are copied to")
    given = parser.parse_args()
    totals = {way: Total([], Counter()) for way in given.way or ["kill"]}
    ends = time.monotonic() + given.minutes * 60
    for seed in range(given.seed, given.seed + given.runs):
        for way, total in totals.items():
            if time.monotonic() < ends:
                _add(total, way, seed, given)
    for way, total in totals.items():
        _sum_up(way, total)
    return 1 if any(total.counts[name] for total in totals.values() for name in (*WRONG, "else")) else 0


if __name__ == "__main__":
    sys.exit(main())
