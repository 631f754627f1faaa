"""The errors that this package raises.

Each error answers these questions: whose fault it is (the class), whether the same call may be tried again
(``retryable``), and what happened (the attributes, from which the message is built). ``what_to_do`` says how to go on.
All errors can be pickled, because Spark sends them from one process to another.
"""

from __future__ import annotations

from typing import Any, ClassVar


class GantryError(Exception):
    """Base of every error that this package raises on purpose."""

    retryable: ClassVar[bool] = False
    """Whether the same call, repeated without a change, may succeed."""
    what_to_do: ClassVar[str] = ""
    """What somebody does about it, in Markdown: ``docs/errors.md`` is made from these (``python -m tools.pages``)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(kind: type[GantryError], args: tuple[Any, ...], state: dict[str, Any]) -> GantryError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(GantryError):
    """A setting is unknown, malformed or contradicts another one. The message names the key and the allowed values."""

    what_to_do = "Correct the setting that the message names."


class ProtocolError(GantryError):
    """Bytes or calls that the wire protocol does not allow."""

    what_to_do = "Look which of its two kinds it is."


class LocalProtocolError(ProtocolError):
    """A value cannot be expressed in the protocol; nothing was sent."""

    what_to_do = "Change the value that the message names; nothing was sent, so nothing has to be undone."


class RemoteProtocolError(ProtocolError):
    """The peer sent bytes that are not a valid frame, header, body or record; the connection must be closed."""

    what_to_do = (
        "Look whether the address is one of a broker or name server, and not of a web server, a proxy or a TLS "
        "port. Clients connect again by themselves."
    )


class MessageIllegal(GantryError, ValueError):
    """A message breaks a rule (topic name, body size, properties ...). Nothing was sent or stored."""

    what_to_do = "Change the message. The text names the rule, and the limit where there is one."


class BodyTooLarge(GantryError):
    """A compressed body grows over ``max_body_bytes``. It stays where it is: nothing is lost.

    Go on behind the message at ``offset + 1``, or raise the limit.
    """

    what_to_do = "Raise `max_body_bytes`, or go on behind the message."

    def __init__(self, place: str, offset: int, most: int) -> None:
        self.place = place
        self.offset = offset
        self.most = most
        super().__init__(
            f"the body of the message at offset {offset} of {place} grows over max_body_bytes={most} when it is "
            f"decompressed; raise max_body_bytes, or go on at offset {offset + 1}"
        )


class RequestRejected(GantryError):
    """The peer understood the request and refused it."""

    what_to_do = (
        "The remark of the server says why. A user without permission: [permissions](docs/permissions.md). An unknown "
        "request: the server is an older one."
    )

    def __init__(self, code: int, remark: str | None = None, *, request: str = "request", address: str = "") -> None:
        self.code = code
        self.remark = remark
        self.request = request
        self.address = address
        where = f" by {address}" if address else ""
        super().__init__(f"{request} refused{where} with response code {code}: {remark or 'no reason given'}")


class TransactionConflict(RequestRejected):
    """A producer wanted to commit a transaction that had been rolled back, or the reverse. The first decision wins.

    The local transaction and its message now disagree: ``result`` says how the local transaction ended.
    """

    what_to_do = (
        "Compare the database with the messages of this transaction: `gantry transactions explain ID` says who "
        "decided it. Undo the local change, or send its message anew."
    )

    def __init__(self, code: int, remark: str | None, transaction_id: str, result: Any = None) -> None:
        self.transaction_id = transaction_id
        self.result = result
        super().__init__(code, remark, request=f"end of transaction {transaction_id}")


class HalfNotStored(GantryError):
    """A broker has the half message, but did not confirm that it is safe on its disk. It is rolled back."""

    retryable = True
    what_to_do = "Run the transaction again. When it comes again and again, look at the disk of the broker."

    def __init__(self, topic: str, status: str) -> None:
        self.topic = topic
        self.status = status
        super().__init__(
            f"the half message for topic {topic!r} is not safe on its broker ({status}); the transaction is rolled back"
        )


class TransactionClaimed(GantryError):
    """The local transaction took too long: a check-back found no outcome, and decided that it is rolled back.

    Nothing of the local transaction is kept, and no message is delivered. Run it again.
    """

    retryable = True
    what_to_do = "Run the transaction again. Raise `longest_transaction` if local transactions take that long."

    def __init__(self, transaction_id: str) -> None:
        self.transaction_id = transaction_id
        super().__init__(
            f"transaction {transaction_id} cannot commit any more: a check-back has rolled it back. Run it again, and "
            "raise longest_transaction if local transactions may take longer than that"
        )


class TransactionBroken(GantryError):
    """The transaction cannot be committed as the block meant it: the database, or code inside the block, has ended,
    moved or undone it, or it is not a transaction at all. No message of it is delivered, and it is rolled back as far
    as the database can; the text says what the database may hold."""

    what_to_do = (
        "Remove what ends, moves or undoes the transaction inside the block; [a list of "
        "causes](docs/sql.md#what-the-database-or-your-code-does-behind-the-block)."
    )


class OutboxFull(GantryError):
    """No broker takes messages, and the outbox table has as many rows as ``row_limit`` allows.

    The local transaction is rolled back. Rows leave the table as soon as a broker takes them.
    """

    what_to_do = (
        "Wait until a broker takes what waits; `gantry sql rows` shows it. "
        "[When the broker is away](docs/sql.md#when-the-broker-is-away) has the limit."
    )

    retryable = True

    def __init__(self, rows: int, limit: int) -> None:
        self.rows = rows
        self.limit = limit
        super().__init__(
            f"the outbox has {rows} messages that no broker has taken, and row_limit is {limit}: this transaction is "
            "rolled back. See `gantry sql rows`; try again when a broker is back, or raise row_limit"
        )


class TransactionTooOld(GantryError):
    """The local transaction has taken longer than a day (or ``longest_transaction``, if that is more).

    A check-back may have rolled it back, and its mark may be deleted with other old rows. So it cannot commit any more.
    Nothing of it is kept, and no message is delivered.
    """

    retryable = True
    what_to_do = "Run it again, in shorter transactions."

    def __init__(self, transaction_id: str) -> None:
        self.transaction_id = transaction_id
        super().__init__(
            f"transaction {transaction_id} cannot commit any more: it has taken longer than a day, and than "
            "longest_transaction. It is rolled back; run it again, in shorter transactions"
        )


class OutcomeUnknown(GantryError):
    """The database did not say whether it committed, and cannot be asked now.

    Nothing is lost: brokers keep the messages and ask (check-back) until the database answers. Do not repeat the
    transaction before you know how it ended; ``transaction_id`` is the row to look for.
    """

    what_to_do = (
        "Do not repeat the transaction before you know how it ended. Wait until the database answers, or look for "
        "the row `transaction_id`."
    )

    def __init__(self, transaction_id: str, reason: str) -> None:
        self.transaction_id = transaction_id
        self.reason = reason
        super().__init__(
            f"whether transaction {transaction_id} committed is not known: {reason}. Its messages wait, and brokers "
            "ask the database until it answers"
        )


class Unreachable(GantryError):
    """No connection to the peer could be made, or it was lost before the answer came."""

    retryable = True
    what_to_do = (
        "Start the server, or correct the address. A broker that is reached by a name server but not by clients "
        "advertises a wrong address: set `brokerIP1`."
    )

    def __init__(self, address: str, reason: str, advice: str = "") -> None:
        """``advice``: what to change, when the peer shows it, e.g. that it speaks TLS; empty: that is not known."""
        self.address = address
        self.reason = reason
        self.advice = advice
        super().__init__(f"cannot reach {address}: {reason}" + (f"; {advice}" if advice else ""))


class TimedOut(GantryError):
    """No answer within the time allowed. The request may or may not have been executed."""

    retryable = True
    what_to_do = (
        "Repeat what may happen twice. Look at the load of the server, and raise the timeout if it is only slow."
    )

    def __init__(self, what: str, timeout_ms: int) -> None:
        self.what = what
        self.timeout_ms = timeout_ms
        super().__init__(f"{what}: no answer within {timeout_ms} ms; it may or may not have been executed")


class Closed(GantryError):
    """The object was closed (or never started); the call did nothing."""

    what_to_do = "Make a new client, or make the call before `close`."


class UsedAfterFork(GantryError):
    """A client object was used in a forked child; create a new one there."""

    what_to_do = "Make the client in the child, after the fork."


class WrongRuntime(GantryError):
    """A client cannot work here: threads were replaced, no event loop runs, or the client belongs to another loop. The
    message says what works."""

    what_to_do = "Do what the message says: usually use `gantrymq.aio` inside of an event loop, and `gantrymq` outside."


class RouteNotFound(GantryError):
    """No name server knows a usable route for the topic."""

    retryable = True
    what_to_do = "Look with `gantry topic list`; make the topic with `gantry topic create`."

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        self.reason = reason
        super().__init__(f"no route for topic {topic!r}: {reason}")


class StoreError(GantryError):
    """The store cannot do what was asked."""

    what_to_do = "Read the message; it names the file."


class StoreLocked(StoreError):
    """Another process holds the store directory."""

    what_to_do = "Stop the other broker, or give this one another `--store`."


class StoreFormatUnknown(StoreError):
    """The store directory contains files that this version cannot read; nothing was changed."""

    what_to_do = (
        "Give another `--store`, or move the files away that are none of a RocketMQ store. Nothing was changed."
    )


class StoreUnavailable(StoreError):
    """The store refuses writes: closed, disk full, or a failed fsync. ``reason`` says which and what to do."""

    what_to_do = "Do what the reason says. After a failed sync: repair the disk and start the broker again."

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class DiskFull(StoreUnavailable):
    """The file system is full. Nothing of the failed write is acknowledged. Writes continue when there is space."""

    retryable = True
    what_to_do = (
        "Free space, and decide the transactions that `gantry transactions list` shows; [a full "
        "disk](docs/store.md#a-full-disk)."
    )


class TooManyOpenFiles(StoreUnavailable):
    """No file descriptor is free. Nothing was changed. The call works with a higher limit, or when files are closed."""

    retryable = True
    what_to_do = "Raise the limit (`ulimit -n`, or `LimitNOFILE` of the service) and start again."


class CorruptRecord(StoreError):
    """A record before the end of the log fails its checks. It is never delivered."""

    what_to_do = "Keep a copy of the store, and look at the disk. Messages behind the record stay readable."

    def __init__(self, offset: int, reason: str) -> None:
        self.offset = offset
        self.reason = reason
        super().__init__(f"record at log offset {offset} is corrupt: {reason}")


class BackupRefused(GantryError):
    """A backup cannot be taken, or restored, as it was asked for. The message says why. Nothing was changed."""

    what_to_do = "Do what the message says; [backups](docs/backup.md)."


class BackupDamaged(GantryError):
    """An object of a backup is missing, or holds other bytes than those that were stored. Nothing was restored."""

    what_to_do = (
        "`gantry backup verify TARGET` lists what is damaged. The next backup stores again what is missing. Until then "
        "restore an older backup."
    )


class InvariantViolated(GantryError):
    """An internal invariant does not hold. The component stops instead of continuing with a wrong state."""

    what_to_do = "This is a bug: please report it with the message and the log. Start the component again."


def invariant(holds: bool, promise: str) -> None:
    """Raise :class:`InvariantViolated` unless ``holds``; unlike ``assert`` it also works under ``python -O``."""
    if not holds:
        raise InvariantViolated(promise)
