"""When a transaction is not the one that a block began: what is said, and how an insert tells it. Pure.

| the insert of the outcome row           | the reason                                           | raised             |
|-----------------------------------------|------------------------------------------------------|--------------------|
| it fails as DUPLICATE                   | a check-back was faster                              | TransactionClaimed |
| it fails as NOT_NULL in the column note | the transaction has not the mark of the block        | TransactionBroken  |
| it fails as NOT_NULL in the column id   | the table belongs to another database, see ``place`` | TransactionBroken  |
| it inserts no row                       | the same                                             | TransactionBroken  |
| it fails otherwise                      | the database says it                                 | that error         |
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import GantryError, TransactionBroken, TransactionClaimed
from gantrymq.sql.rows.failures import Failure, is_about, read_failure

ENDED_INSIDE: Final = (
    "the transaction ended inside the block: by a commit or rollback, by a statement that commits (DDL and LOCK TABLES "
    "of MySQL and MariaDB), or by the database itself after an error such as a deadlock. Statements since then are "
    "rolled back, and no message is delivered. What was executed before a commit is in the database; look at it before "
    "you repeat the block. Leave commit and rollback to the block, and errors, too"
)
ENDED_AND_ON: Final = (
    "the transaction ended inside the block, by a COMMIT or ROLLBACK, or by an error of one, and no message is "
    "delivered. With asyncpg, each statement that its connection executes since then commits by itself: look at the "
    "database before you repeat the block. Leave commit and rollback to the block"
)
"""Of a driver that begins no other transaction."""
COMMITTED_INSIDE: Final = (
    "the transaction was committed inside the block: by a commit(), or by a statement that commits (DDL and LOCK "
    "TABLES of MySQL and MariaDB). Then the block failed. What it had executed before the commit is in the database; "
    "the rest is rolled back, and no message is delivered. Execute such a statement before the block"
)
ROLLED_BACK_INSIDE: Final = (
    "the database has rolled back this transaction after an error (a deadlock, for example), and the block went on. "
    "Everything of the block is rolled back, and no message is delivered. Let the error leave the block, and run the "
    "block again (transactions.run does)"
)
WENT_ON: Final = (
    "the database has rolled back this transaction after an error (a deadlock, for example), and the block went on "
    "before its first message. What it executed since then may be committed, statement by statement; look at it before "
    "you repeat the block. No message is delivered. Let the error leave the block"
)
BENEATH: Final = (
    "the transaction of this session's connection was to be committed without its session, which has messages that "
    "would not be sent. It is rolled back, and no message is delivered. Call session.commit(), or leave it to the block"
)
ROLLED_BACK_BENEATH: Final = (
    "the transaction of this session's connection was rolled back without its session: by connection.rollback(), or by "
    "transaction.rollback(). Everything of the block is rolled back, and no message is delivered. Call "
    "session.rollback(), or let an error leave the block"
)
WENT_ON_BENEATH: Final = (
    "the transaction of this session's connection was ended without its session, by a rollback or commit of the "
    "connection, and the session went on. What it executed since then may be committed, statement by statement; look "
    "at it before you repeat the block. No message is delivered. Call commit and rollback of the session only"
)
COMMITTED_BENEATH: Final = (
    "the transaction of this session's connection was committed without its session, before its first message. What "
    "was executed before that is in the database; the rest is rolled back, and no message is delivered. Call "
    "session.commit(), or leave it to the block"
)
FAILED_INSIDE: Final = (
    "a statement of this transaction has failed, so PostgreSQL will not commit any of it. Let the error leave the "
    "block, or put the statement into a savepoint: with tx.savepoint()"
)
SAVEPOINT_LOST: Final = (
    "a savepoint could not be rolled back, because its connection was lost, for example. So Django has rolled back "
    "everything of the block, and no message is delivered. Run the block again"
)
UNSEEN_SAVEPOINT: Final = (
    "a savepoint was rolled back that was begun by a cursor of the driver, so it is not known which messages were sent "
    "in it. Everything of the block is rolled back, and no message is delivered. Begin savepoints by tx.savepoint(), "
    "session.begin_nested(), or a statement of the session"
)
SENT_TOO_LATE: Final = (
    "a message was sent behind commit(), and the session was closed without another commit: the message is rolled "
    "back, and the rows of the commit stay. Send before the commit"
)
NEVER_COMMITTED: Final = (
    "no statement and no commit came behind the last message on this connection, so it is rolled back. Call "
    "connection.commit() behind send"
)
ELSEWHERE: Final = (
    "this transaction runs in another database than the one that Transactions was started with: its outcome table is "
    "not there, or is another one. Everything of the block is rolled back, and no message is delivered. Give each "
    "database a Transactions object and a producer group of its own"
)


def refused(error: Exception | None, transaction_id: str, table: str) -> GantryError | None:
    """What to raise for an insert of an outcome row that failed; None: the error itself. Without an error: it inserted
    no row."""
    if error is None:
        return TransactionBroken(ELSEWHERE)
    failure = read_failure(error)
    if failure not in (Failure.DUPLICATE, Failure.NOT_NULL) or not is_about(error, table):
        return None
    if failure is Failure.DUPLICATE:
        return TransactionClaimed(transaction_id)
    words = str(error)
    return TransactionBroken(ENDED_INSIDE if '"note"' in words or ".note" in words else ELSEWHERE)
