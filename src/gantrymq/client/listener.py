"""The listener of a transaction producer, and how its results and failures are interpreted. Source:
TransactionListener.

What happens when a listener does not return normally:

| it raises                     | in a check, or in a consumer         | in a local transaction                     |
|-------------------------------|--------------------------------------|--------------------------------------------|
| an Exception                  | failed                               | UNKNOWN; the error is in the result        |
| SystemExit                    | failed; nothing else ends            | UNKNOWN, then raised in the sender's call  |
| KeyboardInterrupt             | failed; on a loop in the main thread | UNKNOWN, then raised in the sender's call  |
|                               | (it is a Ctrl-C) then raised again   |                                            |
| GeneratorExit, CancelledError | failed                               | UNKNOWN; raised by ``call_blocking``       |
| (the client's task is         | failed, then the task is cancelled   | UNKNOWN, then the task is cancelled        |
| cancelled)                    |                                      |                                            |

For a check, *failed* means UNKNOWN with a remark; for a consumer it means that the messages are delivered again. A
local transaction in a thread of its own returns a SystemExit as the ``error`` of its ListenerAnswer, because raising it
in a task would end the event loop. ``send_in_transaction`` then raises it in the task of its caller.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import lru_cache
from types import MethodType
from typing import Any, Final, Protocol

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState

UNKNOWN = LocalTransactionState.UNKNOWN


class ListenerAnswer(msgspec.Struct, frozen=True):
    """The answer of the listener, or the reason why there is none. A listener may return one itself, for its remark."""

    state: LocalTransactionState
    error: BaseException | None = None
    remark: str | None = None
    """Travels to the broker with an UNKNOWN, for people who read its log."""
    ask_again: bool = False
    """With an UNKNOWN of a check: the reason soon passes, so the producer calls the checker again within seconds, and
    not only when the broker asks again (30 s later by default)."""


Answer = LocalTransactionState | ListenerAnswer | Awaitable[LocalTransactionState] | Awaitable[ListenerAnswer]


class TransactionListener(Protocol):
    """The listener of a TransactionProducer. With ``gantrymq.aio`` both methods may be ``async def``."""

    def execute_local_transaction(self, message: Message, arg: Any) -> Answer:
        """Run the local transaction. The half message is stored, and ``message.transaction_id`` is its id."""

    def check_local_transaction(self, message: MessageView) -> Answer:
        """Tell how the local transaction ended. The call may come in another process and much later.

        Answer COMMIT or ROLLBACK only when the local transaction can no longer end the other way. A transaction that
        is not found may still commit: answer ROLLBACK only when it is older than the immunity, or when the checker
        makes sure that it cannot commit (see DecisiveListener). Otherwise answer UNKNOWN.
        """


class DecisiveListener(TransactionListener, Protocol):
    """A listener whose checker may be called at any time, also while the local transaction is running elsewhere.

    ``check_local_transaction`` *claims* a transaction that it does not find: under the id, where the local transaction
    would write its own row, the checker writes a row that says "rolled back". A late commit then fails, so the answer
    ROLLBACK is final. When the process that sent the half message dies, a GantryMQ broker calls such a checker at
    once, and not after the immunity.

    Every member of the group must have such a checker, because the broker may call any of them.
    """

    @property
    def decisive(self) -> bool:
        """Whether the checker works like this. A listener without this attribute is checked when the immunity is
        over."""


def is_decisive(listener: TransactionListener) -> bool:
    """Whether the listener declares its checker decisive. Raises ConfigError for a value that is not a bool."""
    decisive = getattr(listener, "decisive", False)
    if not isinstance(decisive, bool):
        raise ConfigError(
            f"decisive of the listener is {decisive!r}; write True or False (see gantrymq.DecisiveListener)"
        )
    return decisive


def read_answer(answer: object, method: str) -> ListenerAnswer:
    """What a listener returned, read; anything that is no LocalTransactionState (or ListenerAnswer) is UNKNOWN."""
    if isinstance(answer, LocalTransactionState):
        return ListenerAnswer(answer)
    if isinstance(answer, ListenerAnswer):
        return answer
    error = TypeError(f"{method} must return a LocalTransactionState, not {type(answer).__name__}")
    return ListenerAnswer(UNKNOWN, error, str(error))


def read_failure(error: BaseException, method: str) -> ListenerAnswer:
    return ListenerAnswer(UNKNOWN, error, f"{method} raised {described(error)}")


def described(error: BaseException) -> str:
    """An error in words, for people who read a log."""
    try:
        words = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the text of a user's error is the user's code, too
        words = type(error).__name__
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), "")
    return words + hint


_HINTS: Final[dict[type[BaseException], str]] = {
    SystemExit: " (sys.exit in a listener ends nothing but this call; it counts as a failure)",
    KeyboardInterrupt: " (it counts as a failure)",
    GeneratorExit: " (a listener must not raise it; it counts as a failure)",
    asyncio.CancelledError: " (what the listener waited for, or its own task, was cancelled; it counts as a failure)",
}


def goes_on(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether an error that a listener raised on this event loop comes from outside of it, and must be raised again.

    There are three such errors: the cancellation of ``task``, which is the client's own task; GeneratorExit, when the
    event loop is discarded; and a Ctrl-C, which Python raises in the main thread only.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is None or task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return task is None or _current_task() is not task
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop is running here
        return None


def call_blocking(method: Callable[..., object], *arguments: object) -> ListenerAnswer:
    """Call a listener in the user's thread. An Exception becomes UNKNOWN; KeyboardInterrupt and other BaseExceptions
    are raised."""
    name = _name(method)
    try:
        answer = method(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises means: we do not know
        return read_failure(error, name)
    return read_answer(answer, name)


def contain(method: Callable[..., object], *arguments: object) -> ListenerAnswer:
    """Call a listener in a thread of the client, where no caller could catch an error: every error becomes UNKNOWN."""
    try:
        return call_blocking(method, *arguments)
    except BaseException as error:  # noqa: BLE001 - as above
        return read_failure(error, _name(method))


async def call(method: Callable[..., Any], *arguments: object) -> ListenerAnswer:
    """Call a listener on this event loop, whether it is ``async def`` or not.

    The caller awaits the result in its own task, so SystemExit, KeyboardInterrupt and the cancellation of that task
    are raised there. Every other error becomes UNKNOWN.
    """
    name, task = _name(method), asyncio.current_task()
    try:
        answer = method(*arguments)
        if inspect.isawaitable(answer):
            answer = await answer
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        if goes_on(error, task):
            raise
        return read_failure(error, name)
    return read_answer(answer, name)


async def call_contained(method: Callable[..., Any], *arguments: object) -> ListenerAnswer:
    """Like ``call``, but in a task of the client, where a SystemExit would end the event loop: it becomes UNKNOWN, too.
    The errors of ``goes_on`` are raised."""
    try:
        return await call(method, *arguments)
    except (SystemExit, KeyboardInterrupt) as error:
        if goes_on(error, None):
            raise
        return read_failure(error, _name(method))


async def call_in_thread(method: Callable[..., object], *arguments: object) -> ListenerAnswer:
    """Call a listener that may block, in a thread of its own. An error of any kind is the ``error`` of the result."""
    return await asyncio.to_thread(contain, method, *arguments)


def _name(method: Callable[..., object]) -> str:
    return getattr(method, "__name__", "the listener")


def is_async(method: Callable[..., object]) -> bool:
    """Whether a listener's method is ``async def``. This is called for every transaction, so the result for functions
    of classes is cached."""
    return _is_async_function(method.__func__) if isinstance(method, MethodType) else _is_async(method)


@lru_cache(maxsize=64)
def _is_async_function(function: Callable[..., object]) -> bool:
    return _is_async(function)


def _is_async(method: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(getattr(method, "__call__", None))  # noqa: B004
