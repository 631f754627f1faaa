"""Converts the arguments of a new message to the values that are sent. Each error is one sentence that names the
argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number
from typing import Final

from gantrymq.errors import MessageIllegal
from gantrymq.message import properties
from gantrymq.message.arguments import shown, whole_number

MAX_DELAY_LEVEL: Final = 18
"""The number of levels in a broker's ``messageDelayLevel``, unless that setting is changed."""
LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999 in ms since 1970; a larger value was given in another unit."""
MAX_PRIORITY: Final = 2**31 - 1
MAX_ID_LENGTH: Final = 128
"""The most characters of an id that a program chooses; RocketMQ's own ids have 32. A broker holds the ids of all open
transactions in memory."""
MIN_FLAG: Final = -(2**31)
MAX_FLAG: Final = 2**31 - 1


def text_of(name: str, value: object) -> str:
    """``value`` as a text that can be sent. Raises MessageIllegal."""
    if not isinstance(value, str):
        raise MessageIllegal(f"{name} must be a text, not {shown(value)}")
    if not value.isascii():
        _encoded(name, value)
    return value


def _encoded(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise MessageIllegal(
            f"{name} contains half a character (a surrogate), which UTF-8 does not allow; remove it"
        ) from error


def body_of(value: object) -> bytes:
    """A body from a text, or a copy of a bytes-like object. Raises MessageIllegal."""
    if isinstance(value, str):
        return _encoded("body", value)
    try:
        return bytes(memoryview(value))  # type: ignore[arg-type]
    except (
        TypeError,
        ValueError,
        BufferError,
    ):  # bytes(5) would be five zeros, and a list of numbers is not a body either
        raise MessageIllegal(
            f"body must be bytes (bytearray and memoryview, too) or a text, not {shown(value)}"
        ) from None


def number_of(name: str, value: object, low: int, high: int) -> int:
    """Raises MessageIllegal unless ``value`` is a whole number within both ends."""
    number = whole_number(value)
    if number is None or not low <= number <= high:
        raise MessageIllegal(f"{name} must be a whole number from {low} to {high}, not {shown(value)}")
    return number


def keys_of(value: object) -> str:
    """Keys as one text, from a text or from several words. Raises MessageIllegal."""
    if isinstance(value, str):
        return text_of("keys", value)
    if value.__class__ is not list and (
        isinstance(value, bytes | bytearray | memoryview) or not isinstance(value, Iterable)
    ):
        raise MessageIllegal(f"keys must be a text or a list of texts, not {shown(value)}")
    return " ".join([word_of("keys", word) for word in value])


def word_of(name: str, value: object) -> str:
    """A text, or a number in digits. Raises MessageIllegal."""
    if value.__class__ is not str and isinstance(value, Number) and not isinstance(value, bool):
        try:
            value = str(value)
        except ValueError:  # Python does not convert numbers of very many digits
            raise MessageIllegal(f"{name} must hold texts, not {shown(value)}") from None
    return text_of(name, value)


def id_of(name: str, value: object) -> str:
    """An id that the program chooses. Raises MessageIllegal."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= MAX_ID_LENGTH
        or not value.isascii()
        or not value.isprintable()
        or " " in value
    ):
        raise MessageIllegal(
            f"{name} must be a text of 1 to {MAX_ID_LENGTH} visible ASCII characters without blanks, not {shown(value)}"
        )
    return value


def priority_of(value: object) -> str:
    """The property of a priority. Raises MessageIllegal."""
    return str(number_of("priority", value, 0, MAX_PRIORITY))


def priority_in(value: str | None) -> int | None:
    """The number in such a property; None when there is none. Other senders may write anything."""
    return int(value) if value is not None and value.isascii() and value.isdecimal() else None


def times_of(delay_level: object, delay_ms: object, deliver_at_ms: object) -> dict[str, str]:
    """The properties that set the time of delivery. Raises MessageIllegal."""
    level = number_of("delay_level", delay_level, 0, MAX_DELAY_LEVEL)
    delay = number_of("delay_ms", delay_ms, 0, LATEST_MS)
    instant = number_of("deliver_at_ms", deliver_at_ms, 0, LATEST_MS)
    given = {
        name: str(value)
        for name, value in (
            (properties.DELAY, level),
            (properties.TIMER_DELAY_MS, delay),
            (properties.TIMER_DELIVER_MS, instant),
        )
        if value
    }
    if len(given) > 1:
        raise MessageIllegal("a message is delivered once: give one of delay_level, delay_ms and deliver_at_ms")
    return given
