"""A consumer's listener, and what its answers mean. Source: MessageListenerConcurrently, MessageListenerOrderly."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.message.message import MessageView

log = logging.getLogger("gantrymq.client")

ConsumeAnswer = ConsumeStatus | ReconsumeLater | None
MessageListener = Callable[[list[MessageView]], ConsumeAnswer] | Callable[[list[MessageView]], Awaitable[ConsumeAnswer]]
"""Gets some messages of one queue. No exception and no answer, or CONSUME_SUCCESS: they are consumed. RECONSUME_LATER,
a ReconsumeLater or an exception of any kind (SystemExit, too): they come again later. See gantrymq.client.listener.

That a listener which just ends has consumed its messages is Python's way; Java's client delivers again after null."""

AGAIN: Final = ReconsumeLater()
MAX_SUSPEND_MS: Final = 24 * 60 * 60 * 1000
"""A day. Who answers more has taken seconds since 1970 for a time to wait."""


def read_answer(answer: object) -> ReconsumeLater | None:
    """What a listener's answer means; None: consumed."""
    if answer is None or answer is ConsumeStatus.CONSUME_SUCCESS:
        return None
    if isinstance(answer, ReconsumeLater) and _can_be_done(answer):
        return answer
    if isinstance(answer, ReconsumeLater):
        log.error("the listener's %s has a time that is none; the messages come again later", _text(answer))
    elif not isinstance(answer, ConsumeStatus):
        log.error("the listener must return a ConsumeStatus, not %s; the messages come again later", _text(answer))
    return AGAIN


def _can_be_done(answer: ReconsumeLater) -> bool:
    times = (answer.delay_level, 0 if answer.suspend_ms is None else answer.suspend_ms)
    return all(isinstance(time, int) for time in times) and 0 <= times[1] <= MAX_SUSPEND_MS


def _text(answer: object) -> str:
    try:
        return repr(answer)
    except Exception:  # noqa: BLE001 - it is the user's code
        return type(answer).__name__
