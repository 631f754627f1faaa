"""The user's part of a transaction, and how its answers are read. Source: TransactionListener."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import lru_cache
from types import MethodType
from typing import Any, Protocol

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState

UNKNOWN = LocalTransactionState.UNKNOWN
Decision = LocalTransactionState | Awaitable[LocalTransactionState]


class TransactionListener(Protocol):
    """What a TransactionProducer asks. Both methods may be ``async def`` with ``gantrymq.aio``."""

    def execute_local_transaction(self, message: Message, arg: Any) -> Decision:
        """Run the local transaction; the half message is stored. ``message.transaction_id`` names it."""

    def check_local_transaction(self, message: MessageView) -> Decision:
        """Say what became of the local transaction, perhaps in another process and much later.

        Answer COMMIT or ROLLBACK only when the local transaction can no longer end the other way. A transaction that
        is not there (yet) may still commit: ROLLBACK is right only when it is older than the immunity, or when the
        checker makes sure that it cannot (see DecisiveListener). Else UNKNOWN is.
        """


class DecisiveListener(TransactionListener, Protocol):
    """A listener whose checker may be asked at any time, also while the local transaction is running elsewhere.

    ``check_local_transaction`` *claims* a transaction that it does not find: it writes a rolled-back mark under the id
    where the local transaction would write its own, so that a late commit must fail. Then ROLLBACK is final. Brokers of
    GantryMQ ask such a checker at once when the process that sent the half dies, and not after the immunity.

    Every member of the group must have such a checker, for any of them may be asked.
    """

    @property
    def decisive(self) -> bool:
        """True: see above. A listener without this attribute is asked when the immunity is over."""


def is_decisive(listener: TransactionListener) -> bool:
    """What the listener says of its checker. Raises ConfigError when that is neither True nor False."""
    decisive = getattr(listener, "decisive", False)
    if not isinstance(decisive, bool):
        raise ConfigError(
            f"decisive of the listener is {decisive!r}; write True or False (see gantrymq.DecisiveListener)"
        )
    return decisive


class Outcome(msgspec.Struct, frozen=True):
    """What the listener answered, or why it could not."""

    state: LocalTransactionState
    error: Exception | None = None
    remark: str | None = None
    """Travels to the broker with an UNKNOWN, for people who read its log."""


def read_answer(answer: object, method: str) -> Outcome:
    """An answer as an outcome; anything that is no LocalTransactionState is UNKNOWN."""
    if isinstance(answer, LocalTransactionState):
        return Outcome(answer)
    error = TypeError(f"{method} must return a LocalTransactionState, not {type(answer).__name__}")
    return Outcome(UNKNOWN, error, str(error))


def read_failure(error: Exception, method: str) -> Outcome:
    return Outcome(UNKNOWN, error, f"{method} raised {type(error).__name__}: {error}")


def call_blocking(method: Callable[..., object], *arguments: object) -> Outcome:
    """Ask a listener in this thread. An Exception becomes UNKNOWN; KeyboardInterrupt and the like pass through."""
    name = _name(method)
    try:
        answer = method(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises means: we do not know
        return read_failure(error, name)
    return read_answer(answer, name)


async def call(method: Callable[..., Any], *arguments: object) -> Outcome:
    """Ask a listener on this loop, ``async def`` or not; exceptions as for ``call_blocking``."""
    name = _name(method)
    try:
        answer = method(*arguments)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - as above
        return read_failure(error, name)
    return read_answer(answer, name)


async def call_in_thread(method: Callable[..., object], *arguments: object) -> Outcome:
    """Ask a listener that may block, in a thread of its own."""
    return await asyncio.to_thread(call_blocking, method, *arguments)


def _name(method: Callable[..., object]) -> str:
    return getattr(method, "__name__", "the listener")


def is_async(method: Callable[..., object]) -> bool:
    """Whether a listener's method is ``async def``. It is asked for every transaction, so what is known of the
    functions of classes is kept."""
    return _is_async_function(method.__func__) if isinstance(method, MethodType) else _is_async(method)


@lru_cache(maxsize=64)
def _is_async_function(function: Callable[..., object]) -> bool:
    return _is_async(function)


def _is_async(method: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(getattr(method, "__call__", None))  # noqa: B004
