"""Brokers and clients that are broken on purpose: the simulation must find each of them.

``python -m tests.simulation.mutations.run --seeds 300`` breaks them in one way after the other, plays seeds until one
fails, and prints a table. Exit status 1 when a mutation was not found.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gantrymq.broker.transactions import coordinator as transaction_coordinator
from gantrymq.broker.transactions import end
from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.broker.transactions.decision_file import DecisionFile
from gantrymq.broker.transactions.endings import TransactionEndings
from gantrymq.client.consuming.concurrent_consumption import ConcurrentConsumption
from gantrymq.client.consuming.lite_queue import LiteQueue
from gantrymq.client.consuming.lite_queues import LiteQueues
from gantrymq.client.consuming.orderly_consumption import OrderlyConsumption
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.client.sending.delivery import Delivery
from gantrymq.runtime.steady import SteadyTime
from gantrymq.simulation.groups import run as groups
from gantrymq.simulation.run import DEFAULT, Result, run
from gantrymq.simulation.waits import run as waits
from gantrymq.store.dispatch import Dispatch
from gantrymq.store.log import records
from gantrymq.store.log.flush import Flusher
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.recovery.recovery import Recovery
from gantrymq.testing.local.node import NodeClock
from gantrymq.transactions import rebuild
from gantrymq.transactions.records.half import parse_op
from gantrymq.transactions.rules.resolve import EndAction
from gantrymq.transactions.table.open_halves import TransactionTable
from tests.simulation.mutations.mutation import Mutation, Patch
from tests.simulation.mutations.services import SQL_MUTATIONS

SLOW_DISKS = replace(DEFAULT, faults=("slow disks", "power cut", "process killed"), fault_count=12)


class _Agrees(int):
    """A checksum that fits everything."""

    def __and__(self, other: int) -> _Agrees:
        return self

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _acknowledge_at_once(self: LogSafety, end: int, told: Any, item: Any, late: Any = None) -> None:
    self._limits._clock.call_soon(lambda: told(item, None))


def _sync_nothing(self: Flusher) -> None:
    if not self.running and not self.failed and self._log.dirty:
        target = self._log.written
        self.running = True
        self._log.unsynced_files()
        self._disk.sync_later([], lambda error: self._ended(target, error))


def _believe_a_failed_sync(patch: Patch) -> None:
    ended = Flusher._ended
    patch(Flusher, "_ended", lambda self, target, error: ended(self, target, None))


def _count_what_came_during_a_sync(patch: Patch) -> None:
    ended = Flusher._ended
    patch(Flusher, "_ended", lambda self, target, error: ended(self, self._log.written, error))


def _commit_what_is_rolled_back(self: TransactionEndings, half: Any, then: Any = None, *more: Any) -> None:
    self.commit(half, half.real_queue_id + 1, then)


def _roll_back_what_is_committed(
    self: TransactionEndings, half: Any, queues: int, then: Any = None, *more: Any
) -> None:
    self.roll_back(half, then)


def _settle_a_neighbour(patch: Patch) -> None:
    patch(rebuild, "parse_op", lambda body: [offset + 1 for offset in parse_op(body)])
    patch(DecisionFile, "load", lambda self: None)


def _forget_decisions(patch: Patch) -> None:
    patch(rebuild, "apply_ops", lambda *facts: None)
    patch(rebuild, "_find_final_messages", lambda *facts: None)
    patch(DecisionFile, "load", lambda self: None)


def _take_any_decision(patch: Patch) -> None:
    actions = {
        facts: EndAction.ALREADY if action is EndAction.CONFLICT else action for facts, action in end._ACTIONS.items()
    }
    patch(end, "_ACTIONS", actions)


def _no_immunity(patch: Patch) -> None:
    watch = TransactionChecks.watch

    def at_once(self: TransactionChecks, halves: Any) -> None:
        there = list(halves)
        watch(self, there)
        for half in there:
            half.immune_until = 0.0
            self._schedule.put(half, self._clock.monotonic())

    patch(TransactionChecks, "watch", at_once)


def _show_halves(patch: Patch) -> None:
    put_half = transaction_coordinator.TransactionCoordinator.put_half

    def put(self: Any, record: Any, *more: Any, **named: Any) -> None:
        self._store.append([record])
        put_half(self, record, *more, **named)

    patch(transaction_coordinator.TransactionCoordinator, "put_half", put)


def _watch_nothing_old(patch: Patch) -> None:
    begin = transaction_coordinator.TransactionCoordinator.rebuild

    def deaf(self: Any) -> None:
        watch = TransactionChecks.watch
        patched: Any = TransactionChecks
        patched.watch = lambda self, halves, *, anew=False: None
        try:
            begin(self)
        finally:
            TransactionChecks.watch = watch  # type: ignore[method-assign]

    patch(transaction_coordinator.TransactionCoordinator, "rebuild", deaf)


def _any_broker(self: Delivery, publish: Any, same: str | None, avoid: str | None, now: float) -> Any:
    return publish.choose(avoid, self._faults, now)


def _close_once(patch: Patch) -> None:
    async def close(self: PushConsumer) -> None:
        if self._endpoint.running:
            self._endpoint.stop_accepting()
            self._queues.stop()
            await self._endpoint.drain(lambda: self._queues.idle, self._config.close_timeout_ms)
            await self._queues.store()
            await self._queues.unlock()
            await self._queues.member.leave()
            await self._endpoint.close()

    patch(PushConsumer, "close", close)


def _consume_what_failed(patch: Patch) -> None:
    finished = ConcurrentConsumption._finished
    patch(ConcurrentConsumption, "_finished", lambda self, reader, batch, again: finished(self, reader, batch, None))


def _line_up_again(patch: Patch) -> None:
    suspend = OrderlyConsumption._suspend

    def behind(self: Any, reader: Any, line: Any, batch: Any, *more: Any) -> None:
        suspend(self, reader, line, batch, *more)
        line.waiting.rotate(-len(batch))

    patch(OrderlyConsumption, "_suspend", behind)


def _wait_by_the_wall_clock(patch: Patch) -> None:
    """Without ``runtime.steady``: what waits is compared with the wall clock again and again."""
    patch(SteadyTime, "now_ms", lambda self: self._clock.wall_ms())
    patch(SteadyTime, "ends_ms", lambda self, place, stored_ms, wait_ms: stored_ms)


def _believe_any_stored_time(patch: Patch) -> None:
    """A start knows no longest time for a wait that began before."""
    patch(SteadyTime, "ends_ms", lambda self, place, stored_ms, wait_ms: stored_ms)


def _monotonic_is_wall(patch: Patch) -> None:
    """Locks, held requests and immunity are counted by the wall clock, too."""
    patch(NodeClock, "monotonic", lambda self: self.wall_ms() / 1000)


MUTATIONS = (
    Mutation("acknowledged before it is durable", lambda p: p(LogSafety, "tell", _acknowledge_at_once), 50),
    Mutation("the sync is skipped", lambda p: p(Flusher, "start", _sync_nothing), 50),
    Mutation("a failed sync counts as done", _believe_a_failed_sync, 300),
    Mutation("what is written during a sync counts as synced", _count_what_came_during_a_sync, 50,
             lambda seed: run(seed, SLOW_DISKS)),
    Mutation("a rollback commits", lambda p: p(TransactionEndings, "roll_back", _commit_what_is_rolled_back), 5),
    Mutation("a commit rolls back", lambda p: p(TransactionEndings, "commit", _roll_back_what_is_committed), 5),
    Mutation("an op message settles the next half", _settle_a_neighbour, 50),
    Mutation("op messages are not read at the start", lambda p: p(rebuild, "apply_ops", lambda *facts: None), 50),
    Mutation("decisions are forgotten at the start", _forget_decisions, 50),
    Mutation("a torn pair is not completed", lambda p: p(rebuild, "_find_final_messages", lambda *facts: None), 300),
    Mutation("retried halves are not joined", lambda p: p(TransactionTable, "to_join", lambda *facts: None), 300),
    Mutation("a second decision is taken, too", _take_any_decision, 300),
    Mutation("halves go to any broker", lambda p: p(Delivery, "_choose", _any_broker), 300),
    Mutation("immunity is ignored", _no_immunity, 50),
    Mutation("halves are visible", _show_halves, 5),
    Mutation("what was open at the start is not checked", _watch_nothing_old, 50),
    Mutation("checksums are not compared", lambda p: p(records, "crc32", lambda data: _Agrees(1)), 300),
    Mutation("damage ends the log", lambda p: p(Recovery, "_good_behind", lambda self, walk: None), 100),
    Mutation("a damaged queue is not built again",
             lambda p: p(Recovery, "_damaged_from", lambda self, queue, start: start), 300),
    Mutation("queue offsets of a failed write stay taken", lambda p: p(Dispatch, "take_back", lambda *facts: None), 50),
    Mutation("what is polled counts at once",
             lambda p: p(LiteQueue, "committable", LiteQueue.position), 50, groups.run),
    Mutation("the result of an interrupted poll is not given back",
             lambda p: p(LiteQueues, "give_back_last", lambda self: None), 50, groups.run),
    Mutation("a cancelled close is not finished", _close_once, 100, groups.run),
    Mutation("what a listener refuses counts as consumed", _consume_what_failed, 10, groups.run),
    Mutation("in order, what failed goes behind the rest", _line_up_again, 10, groups.run),
    Mutation("waits follow the wall clock", _wait_by_the_wall_clock, 10, waits.run),
    Mutation("a wait has no longest time at a start", _believe_any_stored_time, 10, waits.run),
    Mutation("the monotonic clock steps, too", _monotonic_is_wall, 10, waits.run),
    *SQL_MUTATIONS,
)  # fmt: skip


@contextlib.contextmanager
def broken(mutation: Mutation) -> Iterator[None]:
    """Within it the broker is broken that way."""
    before: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, value: Any) -> None:
        before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    mutation.apply(patch)
    try:
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def find(mutation: Mutation, seeds: range) -> Result | None:
    """The first seed that shows it; None when none does."""
    with broken(mutation):
        return next((result for seed in seeds if not (result := mutation.play(seed)).good), None)


def main(arguments: list[str]) -> int:
    """Print the table; 1 when a mutation was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="seeds to play for each mutation, at most")
    parser.add_argument("--only", default="", help="a part of the names of the mutations")
    options = parser.parse_args(arguments)
    missed = 0
    for mutation in MUTATIONS:
        if options.only not in mutation.name:
            continue
        result = find(mutation, range(options.seeds))
        missed += result is None
        said = "NOT FOUND" if result is None else f"seed {result.seed}: {_what(result)}"
        sys.stdout.write(f"| {mutation.name} | {said} |\n")
        sys.stdout.flush()
    return 1 if missed else 0


def _what(result: Result) -> str:
    found = sorted({violation.rule for violation in result.violations})
    return ", ".join(found) or result.errors[0][:100]


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # part of a run, as for gantry simulate
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation.mutations.run", *sys.argv[1:]])
    sys.exit(main(sys.argv[1:]))
