"""The listener of a consumer and the meaning of its answers. Source: MessageListenerConcurrently,
MessageListenerOrderly.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.message.message import MessageView

log = logging.getLogger("gantrymq.client")

ConsumeAnswer = ConsumeStatus | ReconsumeLater | None
MessageListener = Callable[[list[MessageView]], ConsumeAnswer] | Callable[[list[MessageView]], Awaitable[ConsumeAnswer]]
"""A function that gets some messages of one queue. When it returns None or CONSUME_SUCCESS, they are consumed. When it
returns RECONSUME_LATER or a ReconsumeLater, or raises an exception of any kind (SystemExit, too), they are delivered
again later. See gantrymq.client.listener.

None means success because a Python function without a ``return`` returns it; Java's client delivers again after null.
"""

AGAIN: Final = ReconsumeLater()
MAX_SUSPEND_MS: Final = 24 * 60 * 60 * 1000
"""A day. A larger value is probably a point in time, in seconds since 1970, instead of a time to wait."""


def read_answer(answer: object) -> ReconsumeLater | None:
    """Interpret a listener's answer; None: the messages are consumed."""
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
