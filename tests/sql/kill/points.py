"""Where a process of the test kills itself: before or after every step of the protocol. Names and hooks.

| process                | point            | it dies                                                              |
|------------------------|------------------|----------------------------------------------------------------------|
| service, which pays    | started          | before anything was done                                             |
| one order and sends    | first_send       | when its first half message is on its way                            |
| three messages         | rows             | when its own rows are written                                        |
|                        | all_sends        | when all half messages are on their way                              |
|                        | half_stored      | when the first broker has answered                                   |
|                        | halves_stored    | when all have                                                        |
|                        | before_insert    | before the outcome row                                               |
|                        | after_insert     | behind the outcome row, where it is not one text with the commit     |
|                        | before_commit    | before the database is told to commit                                |
|                        | after_commit     | when the database has committed, and no broker knows                 |
|                        | first_end        | when the first half message was ended                                |
|                        | all_ends         | when all were                                                        |
|                        | any_time         | at a time by chance                                                  |
| sibling, which answers | before_find      | before it looks for the row                                          |
| check-backs            | before_claim     | when it did not find it                                              |
|                        | after_claim      | when it has written the mark                                         |
|                        | before_answer    | before the broker gets the answer                                    |
| service, with rows     | (the above)      | as far as they are there: with ``--away``, messages go by row        |
|                        | row_inserted     | when its first row is in the outbox, and nothing is committed        |
| service or sibling,    | row_half_stored  | when the half message of a row is stored                             |
| which sends a row      | before_delivery  | before the row is deleted                                            |
|                        | row_deleted      | when it is deleted, before the outcome row                           |
|                        | after_delivery   | when both have committed, and no broker knows                        |
| consumer, whose effect | received         | when it has got messages, and nothing was done                       |
| must happen once       | before_row       | before the inbox row                                                 |
|                        | before_effect    | behind the row, and before the effect                                |
|                        | after_effect     | behind the effect                                                    |
|                        | before_commit    | before the database is told to commit                                |
|                        | after_commit     | when the database has committed, and nothing is acknowledged         |
|                        | after_listener   | when the listener has returned                                       |
|                        | before_progress  | before its progress is sent to the broker                            |
|                        | after_progress   | when it was sent                                                     |
|                        | any_time         | at a time by chance                                                  |
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session

from gantrymq.client.consuming.offset_store import BrokerOffsetStore
from gantrymq.client.sending.check_back import CheckBack
from gantrymq.client.sending.halves import Halves
from gantrymq.sql.rules.claim import Query
from gantrymq.sql.sqlalchemy import database as sqlalchemy_database
from gantrymq.sql.sqlalchemy import last_statement
from gantrymq.sql.sqlalchemy import sessions as sqlalchemy_sessions
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.transaction.relay import Relay

SERVICE = (
    "started", "first_send", "rows", "all_sends", "half_stored", "halves_stored", "before_insert", "after_insert",
    "before_commit", "after_commit", "first_end", "all_ends", "any_time",
)  # fmt: skip
DELIVERY = ("row_half_stored", "before_delivery", "row_deleted", "after_delivery")
SERVICE_BY_ROW = (
    "started", "rows", "all_sends", "before_insert", "after_insert", "row_inserted", "before_commit", "after_commit",
    *DELIVERY, "first_end", "any_time",
)  # fmt: skip
DELIVERY_ORDERED = (
    "row_half_stored", "before_delivery", "row_became", "after_delivery", "commit_answered", "row_gone",
)  # fmt: skip
SERVICE_ORDERED = (
    "started", "rows", "all_sends", "before_insert", "after_insert", "row_inserted", "before_commit", "after_commit",
    *DELIVERY_ORDERED, "any_time",
)  # fmt: skip
CONSUMER = (
    "received", "before_row", "before_effect", "after_effect", "before_commit", "after_commit", "after_listener",
    "before_progress", "after_progress", "any_time",
)  # fmt: skip
SIBLING = ("before_find", "before_claim", "after_claim", "before_answer")
SIBLING_BY_ROW = (*SIBLING, *DELIVERY)
SIBLING_ORDERED = (*SIBLING, *DELIVERY_ORDERED)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Points:
    """Kills this process when it ``reach``es the chosen point."""

    def __init__(self) -> None:
        self.chosen: str | None = None

    def reach(self, point: str) -> None:
        if point == self.chosen:
            die()

    def soon(self, seconds: float) -> None:
        """The point ``any_time``."""
        if self.chosen == "any_time":
            threading.Timer(seconds, die).start()


def watch_service(points: Points, engine: Engine, sessions: type[Session], *, alone: bool) -> None:
    """Hooks around the steps of a local transaction, in a process that will not live long. ``alone``: the outcome row
    is inserted by a statement of its own, also where it could be one with the commit."""
    _watch_halves(points)
    execute = last_statement.execute

    def together(connection: Any, statement: str, parameters: Any) -> int:
        if _is_row(statement):
            count = execute(connection, statement, parameters)
            points.reach("row_inserted")
            points.reach("before_commit")
            return count
        points.reach("before_insert")
        if parameters is None:  # the commit is in it
            points.reach("before_commit")
        count = execute(connection, statement, parameters)
        points.reach("after_insert")
        return count

    last_statement.execute = together
    if alone:
        sqlalchemy_sessions.postpone = lambda *_: False

    @event.listens_for(engine, "before_cursor_execute")
    def before(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if _is_outcome(statement):
            points.reach("before_insert")

    @event.listens_for(engine, "after_cursor_execute")
    def after(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if _is_outcome(statement):
            points.reach("after_insert")

        elif _is_row(statement):
            points.reach("row_inserted")

    @event.listens_for(engine, "commit")
    def commit(_connection: Any) -> None:
        points.reach("before_commit")

    @event.listens_for(sessions, "after_commit", insert=True)
    def committed(_session: Any) -> None:
        points.reach("after_commit")

    told = Enlistment.committed

    def committed_on_a_connection(one: Enlistment) -> Any:
        points.reach("after_commit")
        return told(one)

    Enlistment.committed = committed_on_a_connection  # type: ignore[method-assign]


def _is_outcome(statement: str) -> bool:
    """Whether it inserts an outcome row, whatever the schema in front of the table."""
    return statement.startswith("INSERT INTO ") and "gantrymq_outcomes (id" in statement


def _is_row(statement: str) -> bool:
    """Whether it inserts rows of the outbox."""
    return statement.startswith("INSERT INTO ") and "gantrymq_outbox (id" in statement


def _watch_halves(points: Points) -> None:
    begun, ended, stored, all_ended = Halves._begun, Halves._ended, Halves._tell_stored, Halves._tell_ended
    tell_thread = Halves._tell_thread

    def half_begun(*arguments: Any) -> None:
        points.reach("half_stored")
        begun(*arguments)

    def half_ended(*arguments: Any) -> None:
        points.reach("first_end")
        ended(*arguments)

    def halves_stored(*arguments: Any) -> bool:
        told = stored(*arguments)
        if told:
            points.reach("halves_stored")
        return told

    def thread_told(halves: Halves) -> None:
        waits = halves._listens is not None
        tell_thread(halves)
        if waits and halves._listens is None:
            points.reach("halves_stored")

    def halves_ended(*arguments: Any) -> bool:
        told = all_ended(*arguments)
        if told:
            points.reach("all_ends")
        return told

    Halves._begun, Halves._ended = half_begun, half_ended  # type: ignore[method-assign]
    Halves._tell_stored, Halves._tell_ended = halves_stored, halves_ended  # type: ignore[method-assign]
    Halves._tell_thread = thread_told  # type: ignore[method-assign]


def watch_relay(points: Points) -> None:
    """Hooks around the steps in which a row leaves the outbox. Its statements are executed by SqlAlchemyDatabase."""
    storing, delivering, inserting = Relay._stored, Relay._together, sqlalchemy_database.insert
    deleting = Relay._delete

    async def stored(*arguments: Any) -> None:
        await storing(*arguments)
        points.reach("row_half_stored")

    async def delivered(*arguments: Any) -> Any:
        points.reach("before_delivery")
        found = await delivering(*arguments)
        points.reach("after_delivery")
        return found

    def changed(connection: Any, statement: str, parameters: Any) -> int:
        count = inserting(connection, statement, parameters)
        if statement.startswith("DELETE"):
            points.reach("row_deleted")
        if "SET half" in statement:
            points.reach("row_became")
        return count

    async def deleted(self: Relay, ids: Any) -> None:
        if ids:
            points.reach("commit_answered")
        await deleting(self, ids)
        if ids:
            points.reach("row_gone")

    Relay._stored, Relay._together = stored, delivered  # type: ignore[method-assign]
    Relay._delete = deleted  # type: ignore[method-assign]
    sqlalchemy_database.insert = changed


def watch_sibling(points: Points) -> None:
    """Hooks around the steps of a check-back."""
    asking, answering = Local.ask, CheckBack._answer

    def ask(local: Local, query: Query, which: str) -> Any:
        points.reach("before_find" if query is Query.FIND else "before_claim")
        found = asking(local, query, which)
        if query is Query.CLAIM:
            points.reach("after_claim")
        return found

    def answer(*arguments: Any) -> None:
        points.reach("before_answer")
        answering(*arguments)

    Local.ask, CheckBack._answer = ask, answer  # type: ignore[method-assign]


def watch_consumer(points: Points, engine: Engine, sessions: Any) -> None:
    """Hooks around the steps of an effect that happens once; ``consumer`` has those in the listener."""
    keeping = BrokerOffsetStore.keep_now

    def keep(*arguments: Any) -> bool:
        points.reach("before_progress")
        kept = keeping(*arguments)
        points.reach("after_progress")
        return kept

    BrokerOffsetStore.keep_now = keep  # type: ignore[method-assign]

    @event.listens_for(engine, "before_cursor_execute")
    def before(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT") and "gantrymq_inbox" in statement:
            points.reach("before_row")

    @event.listens_for(engine, "commit")
    def commit(_connection: Any) -> None:
        points.reach("before_commit")

    @event.listens_for(sessions, "after_commit", insert=True)
    def committed(_session: Any) -> None:
        points.reach("after_commit")
