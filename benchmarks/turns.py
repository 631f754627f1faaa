"""One turn of ``bench apache``: one row on one broker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks import apache, machine
from benchmarks.apache import SECONDS_PER_LINE, Client, Jars, NotPossible
from benchmarks.machine import Placement
from benchmarks.own_load import SHARE, own_turn
from benchmarks.processes import Running
from benchmarks.rows import Row
from benchmarks.samples import Figures, figures, sampler
from gantrymq.aio import Admin

SHORT_WARM_UP_S = 0.8
SHORT_S = 1.2
SHORT_WARM_UP_TURN_S = 5.0
"""Times of a short run: the start of a turn that is not counted, the time that is measured, and the length of the
warm-up turn."""
FIRST_MESSAGE_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What all turns on one set of brokers have in common."""

    lib: Jars
    placement: Placement
    directory: Path
    seconds: int
    counted_s: float | None
    """Length of a turn that is measured by counting the broker's messages; None: the reports of Apache's programs are
    used."""


def turn(row: Row, running: Running, bench: Bench, topic: str = "") -> Figures:
    """Measure a row on one broker. ``topic``: a topic other than the row's own."""
    topic = topic or row.topic
    if row.client == "ours":
        seconds = max(2.0, bench.seconds * SHARE) if bench.counted_s is None else bench.counted_s
        return own_turn(row, running, bench.placement, topic, seconds)
    if bench.counted_s is not None and row.kind != "consume":
        return _counted_turn(row, running, bench, topic, bench.counted_s)
    return _reported_turn(row, running, bench, topic)


def _reported_turn(row: Row, running: Running, bench: Bench, topic: str) -> Figures:
    """Measure by the reports of Apache's program. The last report counts, which covers about ten seconds."""
    # A consumer begins at the end of the topic, so its first report contains no messages.
    seconds = bench.seconds if bench.counted_s is None else SECONDS_PER_LINE
    lines = seconds // SECONDS_PER_LINE + (row.kind == "consume")
    # A producer sends the messages for the consumer that is measured.
    kinds = ("consume", "plain") if row.kind == "consume" else (row.kind,)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_client(row, kind, running, bench, topic)) for kind in kinds]
        sample = sampler(running, bench.placement.cores, [clients[0].pid])
        first = sample()
        found = apache.follow(row.kind, clients[0].output, sample, lines)
    last, before = found[-1], found[-2].sample if lines > 1 else first
    # A single report covers ten seconds. The time since ``first`` is longer, because it includes the start of the JVM.
    messages = last.per_second * (last.sample.at - before.at if lines > 1 else SECONDS_PER_LINE)
    return figures(
        before, last.sample, messages,
        per_second=last.per_second, average_ms=last.average_ms, max_ms=last.max_ms, failed=last.failed,
    )  # fmt: skip


def _counted_turn(row: Row, running: Running, bench: Bench, topic: str, seconds: float) -> Figures:
    """Measure by counting the messages in the topic: Apache's programs report nothing in their first ten seconds."""
    with _client(row, row.kind, running, bench, topic) as client:
        found: Figures = uvloop.run(_count(running, bench, client, topic, seconds))
        return found


async def _count(running: Running, bench: Bench, client: Client, topic: str, seconds: float) -> Figures:
    sample = sampler(running, bench.placement.cores, [client.pid])
    async with Admin(name_servers=running.name_server) as admin:

        async def stored() -> int:
            stats = await admin.topic_state.stats(topic, running.broker)
            return sum(offsets.max_offset for offsets in stats.offset_table.values())

        begun, deadline = await stored(), time.monotonic() + FIRST_MESSAGE_LIMIT_S
        while await stored() == begun:
            if time.monotonic() > deadline:
                raise NotPossible(f"the benchmark program sent nothing:\n{client.output.read_text()[-1500:]}")
            await asyncio.sleep(0.05)
        await asyncio.sleep(SHORT_WARM_UP_S)
        before, had = sample(), await stored()
        await asyncio.sleep(seconds)
        after, has = sample(), await stored()
    return figures(before, after, has - had, per_second=(has - had) / (after.at - before.at))


@contextlib.contextmanager
def _client(row: Row, kind: str, running: Running, bench: Bench, topic: str) -> Iterator[Client]:
    json = row.client == "json"
    program = apache.client(bench.lib, kind, running, topic, row.size, row.threads, bench.directory, json=json)
    with contextlib.ExitStack() as stack:
        with machine.started_on(bench.placement.client):
            client = stack.enter_context(program)
        yield client
