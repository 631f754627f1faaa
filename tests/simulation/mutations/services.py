"""gantrymq.sql broken on purpose: the simulation of local transactions must find each of these."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final

from gantrymq.client.sending.halves import Done, Halves
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.simulation.database.connection import DatabaseDoor
from gantrymq.simulation.run import Result
from gantrymq.simulation.sql.run import AWAY, run
from gantrymq.sql.rows import tables
from gantrymq.sql.rows.outbox_statements import OutboxStatements
from gantrymq.sql.rows.tables import DATABASE
from gantrymq.sql.rules import claim, steps
from gantrymq.sql.rules.claim import COMMIT, ROLLBACK, Answer, Failed, Query, Rows
from gantrymq.sql.rules.outcomes import Counted, Outcomes, Statement
from gantrymq.sql.rules.relay import delivery
from gantrymq.sql.transaction import local, relay
from gantrymq.sql.transaction.enlistment import AsyncEnlistment, AsyncInsert
from gantrymq.sql.transaction.relay import Relay
from gantrymq.sql.transaction.waiting import Waiting
from tests.simulation.mutations.mutation import Mutation, Patch

Queries = Generator[Query, Rows | Failed, Answer]


def _without_a_key(patch: Patch) -> None:
    patch(local, "ddl", lambda *of: [text.replace("PRIMARY KEY", "") for text in tables.ddl(*of)])


def _end_early(patch: Patch) -> None:
    def prepare(transaction_id: str, away: object) -> Generator[steps.Step, Any, None]:
        yield steps.HalvesStored()
        yield steps.InsertOutcome(transaction_id)
        yield steps.EndHalves(COMMIT)

    patch(steps, "prepare", prepare)


def _do_not_wait(patch: Patch) -> None:
    def prepare(transaction_id: str, away: object) -> Generator[steps.Step, Any, None]:
        yield steps.InsertOutcome(transaction_id)

    patch(steps, "prepare", prepare)


def _claiming(patch: Patch, answered: Callable[[Query, Rows | Failed], Answer | None], only: bool = False) -> None:
    """``answered``: an answer that ends the claim at once; ``only``: CLAIM is answered ROLLBACK and not executed."""
    right = claim.claim

    def wrong(transaction_id: str, database: str) -> Queries:
        queries = right(transaction_id, database)
        query = next(queries)
        while True:
            if only and query is Query.CLAIM:
                return ROLLBACK
            found = yield query
            answer = answered(query, found)
            if answer is not None:
                return answer
            try:
                query = queries.send(found)
            except StopIteration as end:
                told: Answer = end.value
                return told

    patch(steps, "claim", wrong)


def _errors_are_no_rows(patch: Patch) -> None:
    _claiming(patch, lambda query, found: ROLLBACK if query is Query.FIND and isinstance(found, Failed) else None)


def _failed_inserts_claim(patch: Patch) -> None:
    _claiming(patch, lambda query, found: ROLLBACK if query is Query.CLAIM and isinstance(found, Failed) else None)


def _only_read(patch: Patch) -> None:
    _claiming(patch, lambda query, found: None, only=True)


def _believe_any_database(patch: Patch) -> None:
    read_rows = claim.read_rows

    def read(rows: Rows, transaction_id: str, database: str) -> Answer | None:
        return read_rows(rows, transaction_id, next((row[2] for row in rows if row[0] == DATABASE), database))

    patch(claim, "read_rows", read)


def _no_horizon(patch: Patch) -> None:
    patch(Outcomes, "move_horizon", lambda self, horizon: [[], []])


def _unknown_is_rollback(patch: Patch) -> None:
    def settle(transaction_id: str, database: str) -> steps.Steps:
        answer = yield from steps.ask(transaction_id, database)
        if answer.state is LocalTransactionState.UNKNOWN:
            answer = ROLLBACK
        yield steps.EndHalves(answer)
        return answer

    patch(steps, "settle", settle)


def _failure_is_rollback(patch: Patch) -> None:
    patch(AsyncEnlistment, "failed", lambda self: self._end(steps.rolled_back()))


def _do_not_wait_for_drops(patch: Patch) -> None:
    def hasty(self: Halves, done: Done) -> bool:
        if self._failed is None and any(half.begun is None for half in self._halves.values()):
            return False
        done(None, self._failed)
        return True

    patch(Halves, "_tell_stored", hasty)


def _row_of_its_own(patch: Patch) -> None:
    prepare = AsyncEnlistment.prepare
    patch(AsyncEnlistment, "prepare", lambda self, insert: prepare(self, lambda row: self._local._port.alone([row])))


def _at_any_age(patch: Patch) -> None:
    prepare = AsyncEnlistment.prepare

    async def old(self: AsyncEnlistment, insert: AsyncInsert) -> None:
        self._last_moment = float("inf")
        await prepare(self, insert)

    patch(AsyncEnlistment, "prepare", old)


def _halves_follow_the_commit(patch: Patch) -> None:
    patch(Answer, "of_halves", property(lambda self: self.state))


def _rows_of_their_own(patch: Patch) -> None:
    insert_rows = AsyncEnlistment._insert_rows

    async def early(self: AsyncEnlistment, insert: AsyncInsert) -> None:
        async def alone(statement: Statement) -> int:
            await self._local._port.alone([statement])
            return 1

        await insert_rows(self, alone)
        assert self._relay is not None
        self._relay.committed(self._rows)

    patch(AsyncEnlistment, "_insert_rows", early)


def _delete_what_is_there(patch: Patch) -> None:
    async def together(self: DatabaseDoor, statements: Sequence[Counted]) -> bool:
        driver = self.driver_of(await self.connect())
        try:
            for text, parameters, _ in statements:
                await driver.insert((text, parameters))
            await driver.commit()
        finally:
            await driver.close()
        return True

    patch(DatabaseDoor, "together", together)
    _take_each_others_rows(patch)


def _take_each_others_rows(patch: Patch) -> None:
    """No defect: rows change hands while somebody is sending them, as when a process is stopped for a while."""
    patch(relay, "TAKEN_MS", 0)


def _delete_before_the_answer(patch: Patch) -> None:
    """As a row without a key is deleted."""

    def hasty(outcomes: Outcomes, outbox: OutboxStatements, parts: Any, became: Any, taken_ms: int) -> list[Counted]:
        return delivery(outcomes, outbox, parts, {}, taken_ms)

    async def go_on(self: Relay, sendings: Sequence[Any]) -> None:
        self._more = True

    patch(relay, "delivery", hasty)
    patch(Relay, "_end_ordered", go_on)


def _take_all(patch: Patch) -> None:
    patch(OutboxStatements, "_heads", property(lambda self: ""))


def _queues_in_turn(patch: Patch) -> None:
    add = Halves.add
    patch(Halves, "add", lambda self, number, message, order_key=None: add(self, number, message))


def _ordered(away: str) -> Callable[[int], Result]:
    return partial(run, plan=AWAY, away=away, ordered=True)


def _by_row(away: str) -> Callable[[int], Result]:
    return partial(run, plan=AWAY, away=away)


SQL_MUTATIONS: Final = (
    Mutation("sql: a claim without a unique row", _without_a_key, 50, run),
    Mutation("sql: halves end before the commit", _end_early, 50, run),
    Mutation("sql: an error is read as \"not there\"", _errors_are_no_rows, 50, run),
    Mutation("sql: a claim whose insert fails counts", _failed_inserts_claim, 50, run),
    Mutation("sql: a claim reads and does not insert", _only_read, 50, run),
    Mutation("sql: the commit does not wait for its halves", _do_not_wait, 50, run),
    Mutation("sql: another database is believed", _believe_any_database, 50, run),
    Mutation("sql: rows are deleted without a horizon", _no_horizon, 300, run),
    Mutation("sql: an unknown outcome of a commit is a rollback", _unknown_is_rollback, 50, run),
    Mutation("sql: a failed commit is a rollback", _failure_is_rollback, 50, run),
    Mutation("sql: messages of a savepoint are not dropped",
             lambda p: p(AsyncEnlistment, "drop", lambda self, belongs: None), 50, run),
    Mutation("sql: the commit does not wait for dropped messages", _do_not_wait_for_drops, 300, run),
    Mutation("sql: the outcome row is committed on its own", _row_of_its_own, 50, run),
    Mutation("sql: a transaction of any age may commit", _at_any_age, 300, run),
    Mutation("sql by row: a half of a message by row is committed", _halves_follow_the_commit, 50, _by_row("row")),
    Mutation("sql by row: rows are sent before the commit", _rows_of_their_own, 50, _by_row("always")),
    Mutation("sql by row: a relay sends what another one has taken", _delete_what_is_there, 100, _by_row("always")),
    Mutation("sql order: a row is deleted before its COMMIT is answered", _delete_before_the_answer, 100,
             _ordered("always")),
    Mutation("sql order: a relay takes not only heads", _take_all, 50, _ordered("always")),
    Mutation("sql order: queues are chosen in turn", _queues_in_turn, 50, _ordered("refuse")),
    Mutation("sql by row: row_limit is ignored", lambda p: p(Waiting, "check_room", lambda *_: None), 100,
             _by_row("always")),
)  # fmt: skip
