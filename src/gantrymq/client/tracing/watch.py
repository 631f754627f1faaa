"""The hooks of a client: what it reports about its messages to those who record it.

| who records                      | what it is for                                      | switched on by        |
|----------------------------------|-----------------------------------------------------|-----------------------|
| ``MessageTrace`` (sending.trace) | RocketMQ's own trace, ``mqadmin queryMsgTraceById`` | the setting ``trace`` |
| ``Spans`` (tracing.spans)        | OpenTelemetry                                       | a tracer provider     |

A client decides once, when it is made, whether it has a Watch (see ``provider``). Without one it keeps None, and each
place that would report something costs one comparison with None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.message_listener import MessageListener
from gantrymq.client.results import SendResult
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState


class Act:
    """Something that a client has begun. One of the two methods is called, once."""

    __slots__ = ()

    def done(self, result: SendResult | None = None) -> None:
        """It succeeded. ``result``: what a broker answered, where it answers something."""

    def failed(self, error: BaseException) -> None:
        """It failed, or was given up."""


class Check:
    """A broker's question how a local transaction ended. One of ``answered`` and ``failed`` is called, once."""

    __slots__ = ()

    def within(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method of the listener, as it is to be called."""
        return method

    def answered(self, answer: ListenerAnswer) -> None:
        """This is what the broker is told."""

    def failed(self, error: BaseException) -> None:
        """The broker gets no answer from here."""


class LocalTransaction:
    """A local transaction with any number of messages, in the user's own code."""

    __slots__ = ()

    def current(self) -> AbstractContextManager[object]:
        """Whatever is sent inside belongs to it."""
        return contextlib.nullcontext()

    def ended(self, answer: ListenerAnswer) -> None:
        """It ended like this. May be called again; the first call counts."""


NO_ACT = Act()


class Watch:
    """Records what one client does. Each method may be called in any thread; it must neither wait nor raise."""

    def sending(self, message: Message, *, half: bool = False) -> tuple[Message, Act]:
        """A message is about to be sent. Returns the message to send, which may be a copy with further properties."""
        return message, NO_ACT

    def sending_batch(self, messages: Sequence[Message]) -> tuple[list[Message], Act]:
        """The same for messages of one topic that are sent together. They have their ids."""
        return list(messages), NO_ACT

    def executing(self, half: Message, method: Callable[..., Any]) -> Callable[..., Any]:
        """The listener's ``execute_local_transaction`` for a half message that is stored, as it is to be called."""
        return method

    def local_transaction(self) -> LocalTransaction:
        """A local transaction begins, in the context of its caller."""
        return LocalTransaction()

    def ending(self, half: Message, sent: SendResult, state: LocalTransactionState) -> Act:
        """A half message is about to be ended. ``sent``: the result of its sending."""
        return NO_ACT

    def checking(self, half: MessageView) -> Check:
        """A broker asks about a half message."""
        return Check()

    def listener(self, inner: MessageListener) -> MessageListener:
        """The listener of a push consumer, as it is to be called."""
        return inner

    def processing(self, messages: Sequence[MessageView]) -> AbstractContextManager[object]:
        """The program works on messages that it polled or pulled."""
        return contextlib.nullcontext()

    def received(self, messages: Sequence[MessageView], begun_ms: int) -> None:
        """The program asked for messages at ``begun_ms``, and gets these now."""

    def settling(self, operation: str, topic: str, messages: Sequence[MessageView] = ()) -> Act:
        """The broker is told that messages were consumed (``commit``) or not (``nack``)."""
        return NO_ACT


def watch_of(*watches: Watch | None) -> Watch | None:
    """One that reports to all that there are; None when there is none."""
    found = [watch for watch in watches if watch is not None]
    return found[0] if len(found) == 1 else Watches(found) if found else None


def processing(watch: Watch | None, messages: MessageView | Sequence[MessageView]) -> AbstractContextManager[object]:
    """For consumers: ``watch.processing`` of one message or several."""
    views = (messages,) if isinstance(messages, MessageView) else messages
    return contextlib.nullcontext() if watch is None or not views else watch.processing(views)


class _Acts(Act):
    __slots__ = ("_acts",)

    def __init__(self, acts: Sequence[Act]) -> None:
        self._acts = acts

    def done(self, result: SendResult | None = None) -> None:
        for act in self._acts:
            act.done(result)

    def failed(self, error: BaseException) -> None:
        for act in self._acts:
            act.failed(error)


class Watches(Watch):
    """Reports to several. Only OpenTelemetry's has checks and local transactions, so of those the last one counts."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._all = watches
        self._last = watches[-1]

    def sending(self, message: Message, *, half: bool = False) -> tuple[Message, Act]:
        acts = []
        for watch in self._all:
            message, act = watch.sending(message, half=half)
            acts.append(act)
        return message, _Acts(acts)

    def sending_batch(self, messages: Sequence[Message]) -> tuple[list[Message], Act]:
        acts, sent = [], list(messages)
        for watch in self._all:
            sent, act = watch.sending_batch(sent)
            acts.append(act)
        return sent, _Acts(acts)

    def executing(self, half: Message, method: Callable[..., Any]) -> Callable[..., Any]:
        return self._last.executing(half, method)

    def local_transaction(self) -> LocalTransaction:
        return self._last.local_transaction()

    def ending(self, half: Message, sent: SendResult, state: LocalTransactionState) -> Act:
        return _Acts([watch.ending(half, sent, state) for watch in self._all])

    def checking(self, half: MessageView) -> Check:
        return self._last.checking(half)

    def listener(self, inner: MessageListener) -> MessageListener:
        for watch in self._all:
            inner = watch.listener(inner)
        return inner

    def processing(self, messages: Sequence[MessageView]) -> AbstractContextManager[object]:
        return self._last.processing(messages)

    def received(self, messages: Sequence[MessageView], begun_ms: int) -> None:
        self._last.received(messages, begun_ms)

    def settling(self, operation: str, topic: str, messages: Sequence[MessageView] = ()) -> Act:
        return _Acts([watch.settling(operation, topic, messages) for watch in self._all])
