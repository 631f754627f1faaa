"""``send``: a message in the running transaction of a Django connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.asyncio import async_unsafe

from gantrymq.django import running
from gantrymq.django.connection_hooks import ConnectionHooks
from gantrymq.django.recording import Recording
from gantrymq.django.watching import Watch
from gantrymq.errors import ConfigError
from gantrymq.message.message import Message
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.sql.rules.failed_commit import may_run_again

T = TypeVar("T")
NO_TRANSACTION = (
    "send() needs a transaction: put the changes of rows and the send into one `with transaction.atomic():` block, or "
    "let every request be a transaction (ATOMIC_REQUESTS in DATABASES). A message that belongs to no change of a row "
    "is sent with a gantrymq.Producer. Rows that were changed before this are committed, each by itself"
)
NOTHING_TO_COMMIT = (
    "run() cannot begin a transaction, because autocommit is off (AUTOCOMMIT in DATABASES, or set_autocommit(False)): "
    "atomic() would be a savepoint of the transaction that you commit yourself. Call the function without run()"
)
FROM_A_LOOP = (
    "send() cannot run on an event loop, as Django's transactions cannot: put the whole transaction into a function, "
    "and call it with sync_to_async"
)


@async_unsafe(FROM_A_LOOP)
def send(*messages: Message, using: str = DEFAULT_DB_ALIAS, order_key: str | None = None) -> None:
    """Send these messages when the running transaction of the database ``using`` commits; never when it does not.

    The half message is sent now, and the commit waits for it. What is sent in an inner ``atomic`` block that is rolled
    back is dropped. In a ``TestCase`` nothing leaves; see ``gantrymq.django.test.outbox``. ``order_key``: messages of
    one key become visible in the order of the commits (docs/sql.md, Order).

    Raises TransactionManagementError outside of a transaction, MessageIllegal, and ConfigError for wrong settings.
    """
    connection = connections[using]
    if not in_transaction(connection):
        raise transaction.TransactionManagementError(NO_TRANSACTION)
    connection.validate_no_broken_transaction()
    hooks = ConnectionHooks.of(connection)
    if hooks is None:
        recorded = in_test_case(connection)
        if not recorded:
            running.running(using)  # which may connect, before anything of this transaction is looked at
            guard = Watch.of(connection).guard()
            if guard is not None:
                guard.check()
        work: Any = Recording(connection) if recorded else running.enlist(using)
        hooks = ConnectionHooks(connection, work, watched=not recorded)
    for message in messages:
        hooks.send(message, order_key)


def run(work: Callable[[], T], using: str = DEFAULT_DB_ALIAS, attempts: int = 5) -> T:
    """Call ``work()`` in a transaction, and again in a new one when the database could not serialize it.

    The messages of an attempt that failed are rolled back. Raises what the last attempt raised, and RuntimeError within
    another transaction, which would have to be repeated as a whole. TransactionManagementError while autocommit is off.
    """
    connection = connections[using]
    if not connection.in_atomic_block and not connection.get_autocommit():
        raise transaction.TransactionManagementError(NOTHING_TO_COMMIT)
    for attempt in range(1, attempts + 1):
        try:
            with transaction.atomic(using=using, durable=True):
                return work()
        except Exception as error:
            if attempt == attempts or not may_run_again(error):
                raise
            SystemClock().block(SystemRng().random() * 0.01 * 2**attempt)
    raise ConfigError(f"attempts must be 1 or more, not {attempts!r}")


def in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether the project's own code began a transaction: the blocks around each test of a TestCase do not count."""
    if connection.in_atomic_block:
        return not all(block._from_testcase for block in connection.atomic_blocks)
    return not connection.get_autocommit()


def in_test_case(connection: BaseDatabaseWrapper) -> bool:
    """Whether a TestCase will roll back everything. pytest-django's ``db`` is one, too."""
    return any(block._from_testcase for block in connection.atomic_blocks)
