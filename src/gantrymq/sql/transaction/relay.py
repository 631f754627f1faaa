"""Sends the rows of the outbox: at once those that this process has committed, and later those of processes that died.

It lives on the event loop of the client. The steps of one delivery are those of ``rules.relay``. Nothing is looked for
while this process commits rows and brokers take them: the messages are still in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.metrics.figures import OutboxFigures
from gantrymq.client.sending.halves import Halves
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.clock import time_limit
from gantrymq.sql.rows.outbox_statements import Stored, order_columns, portions
from gantrymq.sql.rows.outbox_table import ASIDE_MS, FREE_MS, REFUSED_MS, TAKEN_MS, Row, decode, encode
from gantrymq.sql.rules import steps
from gantrymq.sql.rules.away import is_away
from gantrymq.sql.rules.claim import Failed, Rows
from gantrymq.sql.rules.outcomes import Statement, failed
from gantrymq.sql.rules.relay import PROBE, delivery
from gantrymq.sql.rules.runner import perform
from gantrymq.sql.transaction import became
from gantrymq.sql.transaction.database import AsyncDatabase
from gantrymq.sql.transaction.local import LocalSteps

log = logging.getLogger("gantrymq.sql")
BATCH: Final = 500
"""Rows in one local transaction."""
BATCH_BYTES: Final = 8 << 20
"""The same for the bytes of their bodies. What is in the table is not known before it is read, so the number of rows
grows slowly, and follows the size of those that were read before."""
GROWTH: Final = 4
TURN: Final = 32
"""After so many half messages, other work of the event loop has its turn."""
KEPT: Final = 2_000
"""Messages that are kept in memory after their commit. Further ones are read from the table."""
LOOK_S: Final = 5.0
"""How often a process looks for rows that others have left."""
RARE_LOOK_S: Final = 60.0
"""The same for a process that has seen no row yet, and makes rows of messages with an ordering key only."""
AGAIN_S: Final = 0.2
AGAIN_MOST_S: Final = 1.0
"""How long it waits before it tries again, when no broker has taken anything; the pauses double."""
COUNT_S: Final = 1.0
"""How often rows are counted while there are some. Between two counts, a process knows of its own rows only."""
ENDS_S: Final = 3.0
"""How long the answers to the COMMITs of rows with an ordering key are waited for. Later ones are asked for again."""
STOP_S: Final = 5.0
"""How long the end of a program waits for rows that it has just committed. Others send what is left."""
COMMIT: Final = ListenerAnswer(LocalTransactionState.COMMIT)
ROLLBACK: Final = ListenerAnswer(LocalTransactionState.ROLLBACK)
INTERRUPTED: Final = ListenerAnswer(LocalTransactionState.UNKNOWN, remark="the relay of rows was interrupted")


class _Sending:
    """Rows on their way, under one local transaction."""

    __slots__ = ("error", "halves", "last_moment", "rows", "transaction_id")

    def __init__(self, rows: Sequence[Row], transaction_id: str, halves: Halves, last_moment: float) -> None:
        self.rows = rows
        self.transaction_id = transaction_id
        self.halves = halves
        self.last_moment = last_moment
        """When it can no longer commit; see ``LocalSteps.last_moment``."""
        self.error: BaseException | None = None
        """The first one of its half messages."""

    @property
    def ids(self) -> list[str]:
        return [row.id for row in self.rows]

    @property
    def became(self) -> dict[str, str]:
        """The half messages of rows with an ordering key."""
        return {row.id: became.written(self.halves.half(number)) for number, row in self._ordered()}

    @property
    def ended(self) -> list[str]:
        """Of these rows, those whose end a broker has answered."""
        return [row.id for number, row in self._ordered() if became.is_over(self.halves.end_of(number))]

    def _ordered(self) -> list[tuple[int, Row]]:
        return [(number, row) for number, row in enumerate(self.rows) if row.order_key]


class Relay:
    """The rows of one producer group in one database, as one process sends them."""

    def __init__(
        self, local: LocalSteps, database: AsyncDatabase, client: TransactionProducer, *, rarely: bool = False
    ) -> None:
        """``database``: may be asked on the client's event loop, and never blocks it. ``rarely``: this program may
        never have rows, so it looks for those of others once in a long while."""
        self._rarely = rarely
        self._local = local
        self._database = database
        self._client = client
        self._clock = local.clock
        self._waiting = local.waiting
        self._me = local.rng.token(16).hex()
        """What stands for this process in ``taken_by``."""
        self._fresh: deque[Row] = deque()
        """Rows that this process has committed."""
        self._more = not rarely
        """There may be rows that are not in ``_fresh``. They are older, so they are sent before those."""
        self._read: deque[frozenset[str]] = deque(maxlen=2)
        """The ids of the rows that were read last. This process may hear behind it that it has committed them."""
        self._most = PROBE
        """How many rows are read from the table next."""
        self._singly = False
        """Each row gets a local transaction of its own, because one that was to send many of them has failed."""
        self._missed = False
        """The last delivery found that somebody else had sent one of its rows."""
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._counted_at = 0.0

    # For local transactions. From any thread:

    def inserts(self, rows: Sequence[Row]) -> list[Statement]:
        """The statements that insert rows."""
        outbox, ordered = self._local.outbox, any(row.order_key for row in rows)
        stored = [(row.id, row.message.topic, encode(row.message), row.order_key) for row in rows]
        return [
            (
                outbox.insert_ordered(len(some)) if ordered else outbox.insert(len(some)),
                tuple(value for row in some for value in self._inserted(row, ordered)),
            )
            for some in portions(stored)
        ]

    def _inserted(self, stored: Stored, ordered: bool) -> tuple[Any, ...]:
        row, topic, message, key = stored
        taken = ("", FREE_MS) if key else (self._me, TAKEN_MS)
        values = (row, self._local.settings.group, topic, self._local.outbox.blob(message), *taken)
        return (*values, *self._local.outbox.key(key)) if ordered else values

    # On the event loop:

    def committed(self, rows: Sequence[Row]) -> None:
        """These rows are in the table now."""
        if self._read:
            rows = [row for row in rows if not any(row.id in ids for ids in self._read)]
        if any(row.order_key for row in rows):
            self._more = True  # the table knows whether older ones of their keys are there
        elif len(self._fresh) + len(rows) <= KEPT:
            self._fresh.extend(rows)
        else:
            self._more = True
        self._wake.set()

    def start(self) -> None:
        self._client.count_outbox(lambda: [OutboxFigures(self._waiting.count, self._waiting.oldest_age_s)])
        self._task = self._client.start_task("rows of the outbox", self._run())

    async def stop(self, within_s: float) -> None:
        """Send what this process has committed, as long as brokers take it and that takes no longer than this."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=within_s)
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        pause_s = 0.0
        if self._rarely:  # a program that uses no rows is to notice nothing
            await self._pause(pause_s)
            if self._stopping and not self._more:
                return
        while True:
            try:
                pause_s = await self._round(pause_s)
            except Exception as error:  # noqa: BLE001 - nobody waits for it, and the next round tries again
                log.warning("rows of the outbox could not be sent, and are tried again: %r", error)
                pause_s = AGAIN_MOST_S
            if self._stopping:
                return
            await self._pause(pause_s)

    async def _pause(self, pause_s: float) -> None:
        """Wait for rows, or for the end of a pause in which brokers may come back."""
        if pause_s:
            await self._clock.sleep(pause_s)
            return
        timer = self._clock.call_later(RARE_LOOK_S if self._rarely else LOOK_S, self._look)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _look(self) -> None:
        self._more = True
        self._wake.set()

    async def _round(self, pause_s: float) -> float:
        """Send rows until there are none, or no broker takes them. How long to wait then; 0: until there are rows."""
        self._wake.clear()
        while True:
            rows = await self._next()
            await self._count()
            if not rows:
                if self._waiting.count:  # rows that were committed during a count may have been counted twice
                    await self._count(now=True)
                self._waiting.away = False  # the next transaction finds out
                return 0.0
            self._rarely = False
            if not await self._send(rows):
                return min(AGAIN_MOST_S, 2 * pause_s or AGAIN_S)
            pause_s = 0.0
            if self._stopping and not (self._fresh or self._more):
                return 0.0

    async def _next(self) -> list[Row]:
        """The rows that are sent next."""
        away = self._waiting.away
        if self._fresh and not (away or self._more):
            return self._next_fresh()
        if not (self._more or away):
            return []
        if not self._waiting.count:  # to take rows is to write, and SQLite has one writer at a time: count them first
            await self._count(now=True)
        if not self._waiting.count:
            self._more = False
            return []
        self._fresh.clear()  # they are in the table, too
        return await self._take(PROBE if away else self._most)

    def _next_fresh(self) -> list[Row]:
        rows: list[Row] = []
        size = 0
        while self._fresh and len(rows) < BATCH and size < BATCH_BYTES:
            rows.append(self._fresh.popleft())
            size += len(rows[-1].message.body)
        return rows

    async def _take(self, count: int) -> list[Row]:
        if not self._local.outbox.ordered:
            await self._look_for_order()
        outbox, group, me = self._local.outbox, self._local.settings.group, self._me
        if outbox.finds_first:
            free = [str(row[0]) for row in await self._ask([(outbox.find, outbox.free(group, me, count))])]
            taking = [(outbox.take_found(len(free)), (me, TAKEN_MS, group, me, *free))] if free else []
        else:
            taking = [(outbox.take, (me, TAKEN_MS, *outbox.free(group, me, count)))]
        found = [decode(*row) for row in await self._ask([*taking, (outbox.taken, (group, me, count))])]
        self._more = len(found) == count
        ids = frozenset(row.id for row in found)
        self._read.append(ids)
        self._fresh = deque(row for row in self._fresh if row.id not in ids)
        size = sum(len(row.message.body) for row in found) // max(1, len(found))
        self._most = max(1, min(BATCH, GROWTH * count, BATCH_BYTES // max(1, size)))
        return found

    async def _look_for_order(self) -> None:
        """The table may have been migrated since this process has started, and others use keys. Before they do, they
        start: so to look in front of each take is enough."""
        columns = order_columns(self._local.outcomes.dialect.kind, self._local.settings.outbox_table)
        if await self._ask([(columns, ())]):
            self._local.use_outbox(self._local.outbox.place, ordered=True)

    async def _count(self, *, now: bool = False) -> None:
        moment = self._clock.monotonic()
        if moment - self._counted_at < COUNT_S and not now:
            return
        self._counted_at = moment
        begun = self._waiting.begin_to_count()
        limit = self._local.settings.row_limit + 1
        found = await self._ask([(self._local.outbox.figures, (self._local.settings.group, limit))])
        self._waiting.counted(begun, int(found[0][0]), None if found[0][1] is None else str(found[0][1]))

    async def _ask(self, statements: Sequence[Statement]) -> Rows:
        return await self._database.alone(list(statements))

    async def _send(self, rows: Sequence[Row]) -> bool:
        """Whether there is a reason to go on at once."""
        sent = [row for row in rows if row.half]
        if sent:
            await self._end_again(sent)
        left = [row for row in rows if not row.half]
        return not left or await self._deliver(left)

    async def _end_again(self, rows: Sequence[Row]) -> None:
        """Somebody has made half messages of these rows, and perhaps died before a broker had answered the COMMIT."""
        ends = await asyncio.gather(
            *(self._client.finish(became.read(row), COMMIT) for row in rows), return_exceptions=True
        )
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, GantryError):
                raise end
        await self._delete([row.id for row, end in zip(rows, ends, strict=True) if became.is_over(end)])
        left = [row.id for row, end in zip(rows, ends, strict=True) if not became.is_over(end)]
        if left:
            log.warning(
                "brokers have not confirmed the COMMIT of %d rows with an ordering key, which stop later messages of "
                "their keys: the first one is %s", len(left), left[0]
            )  # fmt: skip
            await self._ask([(self._local.outbox.leave(len(left)), (ASIDE_MS, *left))])

    async def _delete(self, ids: Sequence[str]) -> None:
        """The COMMITs of these rows were answered. The next ones of their keys may leave."""
        if ids:
            await self._ask([(self._local.outbox.delete(len(ids)), tuple(ids))])
            self._waiting.sent(len(ids))
            self._more = True

    # One delivery.

    async def _deliver(self, rows: Sequence[Row]) -> bool:
        """Whether there is a reason to go on at once. Many rows are sent under one local transaction. If it fails,
        each of them gets one of its own: that tells which rows are refused."""
        parts = [[row] for row in rows] if self._singly else [rows]
        sendings: list[_Sending] = []
        try:
            for part in parts:
                sendings.append(await self._begin(part))
            await self._stored(sendings)
            now = self._clock.monotonic()
            stored = [one for one in sendings if one.error is None and now < one.last_moment]
            safe = [one for one in stored if one.halves.longest_commits()]
            answers = await self._leave_table(safe)
        except BaseException:
            for one in sendings:
                one.halves.abandon(INTERRUPTED)
            raise
        for one in sendings:
            one.halves.begin_to_end(answers.get(one.transaction_id, ROLLBACK))
        left = [one for one in safe if answers[one.transaction_id] is COMMIT]
        sent = sum(len(one.rows) for one in left)
        self._waiting.sent(sum(not row.order_key for one in left for row in one.rows))
        await self._end_ordered([one for one in left if any(row.order_key for row in one.rows)])
        if sent < len(rows):
            self._more = True  # the table knows which are left
        first = sendings[0]
        if first.error is not None and len(first.rows) > 1 and self._some_are_stored(first):
            self._singly = True
            return await self._deliver(rows)
        if any(answer is not COMMIT and answer is not ROLLBACK for answer in answers.values()):
            return False  # the database failed, and had to be asked what it did: it gets a pause
        missed, self._missed = self._missed, bool(safe) and sent < sum(len(one.rows) for one in safe)
        self._singly = (missed and self._missed) or (self._singly and sent < len(rows))
        return await self._judge(sendings, safe)

    def _some_are_stored(self, one: _Sending) -> bool:
        """It failed, but not for the reason that no broker takes messages."""
        assert one.error is not None
        return not is_away(one.error, self._client.has_broker()) or not one.halves.are_stored(0)

    async def _begin(self, rows: Sequence[Row]) -> _Sending:
        local = self._local
        transaction_id = local.new_id()
        one = _Sending(
            rows, transaction_id, self._client.halves(local.settings.longest_transaction), local.last_moment()
        )
        marks = local.marks_of(transaction_id)
        try:
            for number, row in enumerate(rows):
                if number and not number % TURN:
                    await self._clock.sleep(0)
                marked = row.message.with_properties({**row.message.properties, **marks})
                one.halves.add(number, marked, row.order_key or None)
        except BaseException:
            one.halves.abandon(INTERRUPTED)
            raise
        return one

    async def _stored(self, sendings: Sequence[_Sending]) -> None:
        """Wait until each half message is stored, or has failed."""
        waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(sendings)

        def told(one: _Sending, _: Any, error: BaseException | None) -> None:
            nonlocal left
            one.error = error
            left -= 1
            if not left and not waits.done():
                waits.set_result(None)

        for one in sendings:
            one.halves.when_stored(partial(told, one))
        await waits

    async def _end_ordered(self, sendings: Sequence[_Sending]) -> None:
        """Delete the rows with an ordering key whose COMMIT was answered. Those that are left wait until somebody takes
        them and repeats it."""
        if not sendings:
            return
        waits = asyncio.gather(*(one.halves.ended() for one in sendings), return_exceptions=True)
        with suppress(TimeoutError):
            async with time_limit(self._clock, ENDS_S):
                await waits
        await self._delete([row for one in sendings for row in one.ended])

    async def _leave_table(self, safe: Sequence[_Sending]) -> dict[str, ListenerAnswer]:
        """Delete the rows, and decide their transactions. How each ends."""
        if not safe:
            return {}
        pairs = [(one.ids, one.transaction_id) for one in safe]
        done = await self._together(pairs, {row: half for one in safe for row, half in one.became.items()})
        if done is True:
            return dict.fromkeys((transaction for _, transaction in pairs), COMMIT)
        if isinstance(done, Failed):
            answer = await self._settle(pairs[0][1])
            return dict.fromkeys((transaction for _, transaction in pairs), answer)
        if len(safe) == 1:  # somebody else has sent one of its rows
            return {pairs[0][1]: ROLLBACK}
        answers: dict[str, ListenerAnswer] = {}
        for one in safe:
            answers |= await self._leave_table([one])
        return answers

    async def _together(
        self, pairs: Sequence[tuple[Sequence[str], str]], halves: Mapping[str, str]
    ) -> bool | Failed:  # fmt: skip
        outcomes, outbox = self._local.outcomes, self._local.outbox
        try:
            return await self._database.together(delivery(outcomes, outbox, pairs, halves, TAKEN_MS))
        except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
            return failed(error)

    async def _settle(self, transaction_id: str) -> ListenerAnswer:
        """The database did not say whether it committed. One outcome row speaks for all that were inserted with it."""

        async def ask(step: steps.Ask) -> Rows | Failed:
            try:
                return await self._ask(self._local.outcomes.query(step.query, step.transaction_id))
            except Exception as error:  # noqa: BLE001 - as above
                return failed(error)

        answer = await perform(steps.ask(transaction_id, self._local.identity), ask)
        return ListenerAnswer(answer.state, remark=answer.reason)

    async def _judge(self, sendings: Sequence[_Sending], safe: Sequence[_Sending]) -> bool:
        """What the errors of brokers say: whether brokers take messages, and which rows they refuse."""
        waiting, connected = self._waiting, self._client.has_broker()
        errors = [(one, one.error) for one in sendings if one.error is not None]
        refused = [one for one, error in errors if not is_away(error, connected)]
        if refused:
            ids = [row for one in refused for row in one.ids]
            log.warning(
                "%d rows of the outbox were refused, and are tried again in %d s; the first one is %s: %s",
                len(ids), REFUSED_MS // 1000, ids[0], refused[0].error,
            )  # fmt: skip
            await self._ask([(self._local.outbox.leave(len(ids)), (REFUSED_MS, *ids))])
        if len(errors) > len(refused):
            self._more = True
            if safe or connected:  # one broker of several is away, or hangs: it must not stop the rows of the others
                ids = [row for one, error in errors if is_away(error, connected) for row in one.ids]
                await self._ask([(self._local.outbox.leave(len(ids)), (ASIDE_MS, *ids))])
        if safe or len(errors) == len(refused):
            if waiting.away:
                log.info("brokers take messages again: %d wait in the outbox", waiting.count)
                waiting.away, self._more = False, True
            return True
        if not waiting.away:
            log.warning("no broker takes messages; they wait in the outbox: %s", errors[0][1])
            waiting.away = True
        return False
