"""Many half messages of one request are stored in one append, and become open transactions together.

Each of them is in the table of transactions like any other; only the work around it is done once for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.errors import StoreError
from gantrymq.message import flags, properties
from gantrymq.message.system_topics import HALF
from gantrymq.protocol.stored_message import Birth
from gantrymq.store.log.appender import RunItem
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import HALF_QUEUE_ID, with_real_place
from gantrymq.transactions.rules.check_policy import immunity_ms
from gantrymq.transactions.rules.states import TRANSITIONS, Event, State
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable, Waiting

RunDone = Callable[[Sequence[OpenHalf], StoreError | None], None]
"""Called once, when all halves of a run are safe, or with the reason why they are not."""

# Looking up a member of an enum costs ten times a global before Python 3.12; these are looked up for each message.
_STORING: Final = State.STORING
_OPEN: Final = TRANSITIONS[State.STORING, Event.DURABLE]
_DECISIVE: Final = properties.IMMUNE_WHILE_CONNECTED


class _Run:
    """Halves on their way to the disk, and who waits for them."""

    __slots__ = ("done", "halves")

    def __init__(self, halves: list[OpenHalf], done: RunDone) -> None:
        self.halves = halves
        self.done: RunDone | None = done


class HalfRuns:
    """Stores runs of halves. ``stored`` and ``late``: what happens to one half where something is uncommon."""

    def __init__(
        self, store: HalfStore, table: TransactionTable, checks: TransactionChecks, counts: TransactionCounts,
        unconfirmed: dict[int, Unconfirmed], stored: Waiting, late: Callable[[OpenHalf, Unconfirmed], None],
    ) -> None:  # fmt: skip
        self._appender = store.appender
        self._safety = store.safety
        self._table = table
        self._checks = checks
        self._counts = counts
        self._unconfirmed = unconfirmed
        self._stored_one = stored
        self._late_one = late

    def put(
        self, topic: str, queue_id: int, group: str, items: Sequence[RunItem], common: str, birth: Birth,
        timeout_ms: int, done: RunDone,
    ) -> bool:  # fmt: skip
        """See ``HalfMessages.put_run``. ``timeout_ms``: the immunity of halves that ask for none."""
        keys = [item[3] or "" for item in items]
        unique = set(keys)
        if len(unique) < len(keys) or "" in unique or not self._table.has_none_of(group, unique):
            return False
        if any([_DECISIVE in item[1] for item in items]):
            return False  # their senders are remembered one by one
        own = immunity_ms(properties.find(common, properties.CHECK_IMMUNITY_SECONDS), 0)
        born_timestamp, born_host, flag, sys_flag, times = birth
        placed = self._appender.append_run(
            HALF, HALF_QUEUE_ID,
            [
                (body, with_real_place(text, topic, queue_id, key or ""), item_flag, key, tags)
                for body, text, item_flag, key, tags in items
            ],
            (born_timestamp, born_host, flag, sys_flag & ~flags.TRANSACTION_MASK, times),
        )  # fmt: skip
        if placed is None:
            return False
        queue_offset, stored_at, places, records = placed
        immunity = own or timeout_ms
        halves = [
            OpenHalf(
                number, place, group, item[3] or "", topic, queue_id, stored_at, immunity, _STORING, own,
                tags_code=item[4], size=len(record),
            )
            for number, (place, item, record) in enumerate(zip(places, items, records, strict=True), queue_offset)
        ]  # fmt: skip
        self._table.add_run(halves, records)
        self._safety.tell(places[-1] + len(records[-1]), self._stored, _Run(halves, done), self._late)
        return True

    def _late(self, run: _Run, error: Unconfirmed) -> None:
        for half in run.halves:
            self._late_one(half, error)
        self._tell(run, error)

    def _stored(self, run: _Run, error: StoreError | None) -> None:
        if error is not None or self._unconfirmed or any([half.state is not _STORING for half in run.halves]):
            for half in run.halves:
                self._stored_one(half, error)
        else:
            self._open(run.halves)
        self._tell(run, error)

    def _open(self, halves: list[OpenHalf]) -> None:
        self._counts.halves += len(halves)
        joined = []
        for half in halves:
            half.state = _OPEN
            if half.waiting is not None:
                joined.append(half)
        self._checks.watch_run(halves, anew=self._safety.has_conditions)
        for half in joined:
            waiting, half.waiting = half.waiting, None
            for then in waiting or ():
                then(half, None)

    def _tell(self, run: _Run, error: StoreError | None) -> None:
        done, run.done = run.done, None
        if done is not None:
            done(run.halves, error)
