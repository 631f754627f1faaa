"""Blocks that once broke a rule, as short as they go. Each says what it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.sql.blocks.plan import Block, Do, Step

ROW, MESSAGE = Step(Do.PAY, "row_first"), Step(Do.PAY, "message_first")
ERROR, AGAIN = Step(Do.RAISE, "error"), Step(Do.RAISE, "again")


def statement(name: str) -> Step:
    return Step(Do.STATEMENT, name)


def nested(kind: str, *inner: Step, ends: str = "error") -> Step:
    return Step(Do.SAVEPOINT, kind, caught=True, ends=ends, inner=inner or (ROW,))


def call(name: str, *, caught: bool = False) -> Step:
    return Step(Do.CALL, name, caught=caught)


def server(name: str) -> Step:
    """The database rolls back, and the program goes on."""
    return Step(Do.SERVER, name, caught=True)


LOST_NOW = Step(Do.DIE, "socket")
ROLLED_BACK = Step(Do.PAY, "row_first", inner=(statement("rollback_begin"),))
CLOSED = Step(Do.PAY, "row_first", inner=(call("close", caught=True),))
"""Rows that the program believes to be rolled back."""
KNOWN: Final[list[Block]] = [
    # Another schema: the outcome row lay where no check-back looks.
    Block("connections", "postgresql", steps=(statement("schema_local"), ROW)),
    Block("connections", "mariadb", steps=(statement("schema"), ROW)),
    Block("sessions", "postgresql", steps=(statement("schema_local"), ROW)),
    Block("sessions", "mariadb", steps=(statement("schema"), ROW)),
    Block("sessions", "sqlite", steps=(statement("shadow"), ROW)),
    Block("django", "postgresql", form="atomic", steps=(statement("schema_local"), ROW)),
    Block("async_sessions", "postgresql", steps=(statement("schema"), ROW)),
    Block("async_connections", "postgresql", steps=(statement("schema"), ROW)),
    # The server rolled back, and the program went on.
    Block("sessions", "mariadb", steps=(ROW, Step(Do.SERVER, "deadlock", caught=True), ROW)),
    Block("django", "mariadb", form="atomic", steps=(ROW, Step(Do.SERVER, "deadlock", caught=True))),
    Block("sessions", "sqlite", steps=(ROW, Step(Do.SERVER, "or_rollback", caught=True))),
    Block("django", "sqlite", form="atomic", steps=(ROW, Step(Do.SERVER, "or_rollback", caught=True))),
    Block("async_sessions", "sqlite", steps=(ROW, Step(Do.SERVER, "trigger", caught=True), ROW)),
    # A statement that commits, and then an error.
    Block("connections", "mariadb", steps=(ROW, statement("ddl"), ERROR)),
    Block("sessions", "mariadb", steps=(ROW, statement("ddl"), ERROR)),
    Block("django", "mariadb", form="atomic", steps=(ROW, statement("lock"), ERROR)),
    Block("sessions", "postgresql", steps=(ROW, statement("commit_chain"), ERROR)),
    Block("connections", "postgresql", steps=(ROW, statement("rollback_chain"), ROW)),
    Block("connections", "sqlite", form="run", steps=(ROW, statement("commit"), AGAIN)),
    # Savepoints that are not ours.
    Block("connections", "postgresql", steps=(nested("driver"), ROW)),
    Block("connections", "sqlite", steps=(nested("raw"), ROW)),
    Block("sessions", "postgresql", steps=(nested("connection"), ROW)),
    Block("sessions", "sqlite", steps=(nested("raw", ends="rollback"), ROW)),
    Block("django", "sqlite", form="atomic", steps=(nested("raw"), ROW)),
    Block("async_connections", "postgresql", steps=(nested("driver"), ROW)),
    Block("sessions", "sqlite", form="open", steps=(ROW, Step(Do.CALL, "commit"), Step(Do.SEND))),
    # One connection for everything.
    Block("sessions", "sqlite", "memory_fresh", "maker", (ROW, ERROR)),
    Block("sessions", "sqlite", "memory", "maker", (ROW, ROW, ERROR)),
    # Another event loop, and the next block.
    Block("async_sessions", "postgresql", form="other_loop", steps=(ROW,)),
    Block("async_sessions", "postgresql", steps=(ROW,)),
    Block("async_connections", "postgresql", form="other_loop", steps=(ROW,)),
    Block("async_connections", "postgresql", steps=(ROW,)),
    # It is not a transaction at all.
    *(
        Block("sessions", kind, setting, form, (ROW, ERROR))
        for kind in ("postgresql", "mariadb", "sqlite")
        for setting in ("autocommit", "option_autocommit", "driver_autocommit", "event_autocommit")
        for form in ("begin", "maker")
    ),
    *(Block("sessions", kind, "maker_autocommit", "maker", (ROW, ERROR)) for kind in ("postgresql", "sqlite")),
    *(Block("connections", kind, "autocommit", "on", (ROW, ERROR)) for kind in ("postgresql", "mariadb", "sqlite")),
    Block("sessions", "sqlite", steps=(nested("session", ends="release"), ERROR)),
    # Connections of Core.
    *(
        Block("core", kind, form=form, steps=(ROW, nested("connection"), ROW))
        for kind, form in (("postgresql", "begin"), ("mariadb", "connect"), ("sqlite", "session"))
    ),
    Block("core", "sqlite", form="open", steps=(ROW, Step(Do.CALL, "commit"), Step(Do.SEND))),
    Block("core", "mariadb", "chain", steps=(ROW,)),
    Block("core", "mariadb", form="connect", steps=(ROW, statement("lock"), ERROR)),
    Block("core", "sqlite", steps=(ROW, Step(Do.CALL, "invalidate", caught=True))),
    Block("connections", "mariadb", steps=(ROW, statement("lock"), Step(Do.SERVER, "deadlock"))),
    # A statement that commits, and the connection is lost before the mark can be looked for.
    *(
        Block(way, "mariadb", steps=(ROW, statement(name), Step(Do.DIE, "terminated")))
        for way in ("core", "connections")
        for name in ("lock", "analyze")
    ),
    Block("async_core", "postgresql", form="begin_elsewhere", steps=(ROW,)),
    Block("async_core", "postgresql", steps=(ROW,)),
    Block("async_core", "postgresql", form="open", steps=(statement("commit"), ROW, Step(Do.CALL, "rollback"))),
    # asyncpg without SQLAlchemy: behind a COMMIT, its statements commit by themselves.
    Block("asyncpg", "postgresql", steps=(nested("driver"), nested("raw"), ROW)),
    Block("asyncpg", "postgresql", steps=(statement("deferred"), replace(statement("commit"), caught=True), ROW)),
    Block("sessions", "postgresql", "prepare_0", steps=(ROW,)),
    Block("django", "sqlite", "autocommit_off", "manual", (ROW, ERROR)),
    Block("sessions", "sqlite", "option_autocommit", "begin", (server("trigger"), ROW, Step(Do.FAIL, "duplicate"))),
    # The same on an event loop.
    *(Block("async_sessions", "postgresql", steps=(nested(kind), ROW)) for kind in ("session", "connection", "raw")),
    Block("async_sessions", "postgresql", "psycopg", steps=(statement("schema_local"), nested("session"), ROW)),
    Block("async_sessions", "sqlite", steps=(ROW, server("or_rollback"))),
    Block("async_sessions", "sqlite", steps=(statement("attach"), nested("session", ends="rollback"), ROW)),
    Block("async_connections", "postgresql", steps=(statement("schema_local"), nested("raw"), ROW)),
    Block("async_connections", "postgresql", "autocommit", "on", (ROW, statement("rollback"), ROW)),
    # Django refused a call, or it changed nothing, and what was known of the transaction was forgotten.
    Block("django", "sqlite", form="atomic", steps=(ROW, server("or_rollback"), call("set_autocommit", caught=True))),
    Block("django", "sqlite", form="manual", steps=(ROW, server("or_rollback"), call("set_autocommit_off"))),
    # Behind the end of the transaction, on a connection in autocommit, statements committed by themselves.
    Block(
        "connections", "sqlite", "autocommit", steps=(Step(Do.PAY, "message_first", inner=(server("or_rollback"),)),)
    ),
    # The connection was committed without its session.
    *(
        Block("sessions", kind, steps=(MESSAGE, call("connection_commit", caught=True), call("rollback")))
        for kind in ("postgresql", "mariadb", "sqlite")
    ),
    *(
        Block("sessions", kind, "reset_commit", steps=(call("driver_commit"), MESSAGE))
        for kind in ("postgresql", "mariadb")
    ),
    Block("sessions", "mariadb", "chain", steps=(MESSAGE, ROW)),
    Block("async_sessions", "postgresql", form="open", steps=(ROW, statement("commit"), call("rollback"))),
    # The connection was rolled back or committed without its session, and a savepoint was a transaction of its own.
    *(
        Block(
            way,
            "sqlite",
            steps=(call(name, caught=True), server("or_rollback"), nested("session", MESSAGE, ends="release")),
        )
        for way in ("sessions", "async_sessions")
        for name in ("connection_rollback", "connection_commit")
    ),
    # A listener of the program failed at the end, and the next block committed what had been left open.
    *(Block("sessions", "sqlite", "commit_listener", steps=(ROW,)) for _ in range(2)),
    *(Block("async_sessions", "postgresql", "commit_listener", steps=(ROW,)) for _ in range(2)),
    *(Block("core", "postgresql", "rollback_listener", "connect", (ROW, *more)) for more in ((ERROR,), ())),
    Block("sessions", "mariadb", "commit_listener", "context", (MESSAGE, statement("drop"))),
    # A savepoint of Django was lost with its connection, and everything was rolled back without a word.
    Block(
        "django",
        "postgresql",
        form="atomic",
        steps=(MESSAGE, Step(Do.SAVEPOINT, "atomic", caught=True, ends="error", inner=(Step(Do.DIE, "terminated"),))),
    ),
    # SQLAlchemy looked at the connection behind an error of the driver, and it was closed already.
    Block("sessions", "postgresql", steps=(Step(Do.FAIL, "duplicate", caught=True),)),
    # Sessions whose engine is in autocommit learned it at the first message only.
    Block("sessions", "postgresql", "option_autocommit", "maker", (ROLLED_BACK, ROW)),
    Block("async_sessions", "mariadb", "maker_autocommit", "open", (CLOSED, ROW)),
    # A connection in autocommit whose transaction the program rolled back: the error spoke of no transaction only.
    Block(
        "async_core",
        "postgresql",
        "option_autocommit",
        "begin",
        (Step(Do.PAY, "row_first", inner=(call("transaction_rollback", caught=True),)), MESSAGE),
    ),
    # A statement that commits, and then the connection is lost, or there was no message.
    Block("sessions", "mariadb", steps=(MESSAGE, statement("truncate"), LOST_NOW)),
    Block("django", "mariadb", form="atomic", steps=(MESSAGE, statement("analyze"), LOST_NOW)),
    Block("connections", "mariadb", steps=(MESSAGE, call("begin"), LOST_NOW)),
    Block("connections", "mariadb", steps=(Step(Do.PAY, "row_first", inner=(statement("ddl"),)), ERROR)),
    # A message behind the commit, and a savepoint that was rolled back before.
    Block("sessions", "sqlite", form="open", steps=(nested("session"), ROW, call("commit"), Step(Do.SEND))),
    # Nothing is wrong with these; the judge once said so.
    Block("sessions", "sqlite", form="open", steps=(Step(Do.SEND),)),
    Block("sessions", "mariadb", form="open", steps=(call("invalidate"), Step(Do.SEND))),
    Block("sessions", "postgresql", form="maker", steps=(call("autocommit"), ROLLED_BACK, ROW)),
    Block("sessions", "postgresql", "proxy", "plain", (MESSAGE, Step(Do.DIE, "cut_after"))),
    Block("django", "sqlite", form="manual", steps=(call("set_autocommit"), ROW)),
    Block("django", "sqlite", form="manual", steps=(call("close"), call("driver_rollback"))),
    Block(
        "core",
        "postgresql",
        form="open",
        steps=(call("invalidate"), MESSAGE, call("driver_autocommit", caught=True), call("commit"), ERROR),
    ),
    Block("sessions", "sqlite", "autocommit", "open", (Step(Do.PAY, "row_first", inner=(Step(Do.FAIL, "syntax"),)),)),
    Block("async_sessions", "sqlite", "fresh", "maker_elsewhere", (MESSAGE,)),
    Block("async_sessions", "sqlite", steps=(ROW, statement("commit"), call("rollback", caught=True), call("commit"))),
]
