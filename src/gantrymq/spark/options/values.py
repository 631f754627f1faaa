"""Reads single values of options: numbers, times, durations. Every error names the option and what is allowed.

The value of a secret option is never part of an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import Positions

_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h)?")
_UNITS_MS: Final = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_SIZE: Final = re.compile(r"(\d+)\s*([kmg])?b?")
_UNITS: Final = {None: 1, "k": 1024, "m": 1024**2, "g": 1024**3}
TIME_FORM: Final = "milliseconds since 1970, or a time with its zone such as 2026-01-31T08:00:00Z"
_TIMES_FORM: Final = '{"orders": {"broker-a": {"0": "2026-01-31T08:00:00Z"}}}'


class Secret:
    """A text that is shown nowhere. It is pickled with the settings, because the tasks need it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def words(text: str) -> list[str]:
    """The words of a list that is separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def servers(options: Mapping[str, str], name: str) -> str:
    """The addresses of name servers, as clients take them."""
    return ";".join(words(options[name].replace(";", ",")))


def text(options: Mapping[str, str], name: str) -> str:
    """The text as it is."""
    return options[name]


def text_or_none(options: Mapping[str, str], name: str) -> str | None:
    """The text as it is; None for an empty one."""
    return options[name] or None


def secret(options: Mapping[str, str], name: str) -> Secret | None:
    """A text that is shown nowhere; None for an empty one."""
    return Secret(options[name]) if options[name] else None


def truth(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = str(options.get(name, default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"option {name} is {options[name]!r}; allowed are true and false")
    return text == "true"


def count(options: Mapping[str, str], name: str) -> int:
    """A whole number from 1 on."""
    try:
        value = int(options[name])
    except ValueError:
        value = 0
    if value < 1:
        raise ConfigError(f"option {name} is {options[name]!r}; allowed is a whole number, 1 or more")
    return value


def chosen(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """One of several words, in any case; the first one is the default."""
    text = options.get(name, allowed[0]).strip()
    for word in allowed:
        if text.lower() == word.lower():
            return word
    raise ConfigError(f"option {name} is {text!r}; allowed are {' and '.join(allowed)}")


def duration_ms(options: Mapping[str, str], name: str, least: int = 0) -> int:
    """A duration in milliseconds."""
    match = _DURATION.fullmatch(options[name].strip().lower())
    value = int(match[1]) * _UNITS_MS[match[2]] if match else -1
    if value < least:
        minimum = f", {least} ms or more" if least else ""
        raise ConfigError(
            f"option {name} is {options[name]!r}; allowed are times like 500ms, 90s, 2m (a number is ms){minimum}"
        )
    return value


def size_bytes(options: Mapping[str, str], name: str, least: int = 1, most: int | None = None) -> int:
    """A size in bytes."""
    match = _SIZE.fullmatch(options[name].strip().lower())
    value = int(match[1]) * _UNITS[match[2]] if match else -1
    if value < least or (most is not None and value > most):
        limits = f"of {least} bytes or more" if most is None else f"from {least} to {most} bytes"
        raise ConfigError(f"option {name} is {options[name]!r}; allowed are sizes like 512k, 64m, 1g, {limits}")
    return value


def instant_ms(text: str, name: str) -> int:
    """A time in milliseconds since 1970."""
    text = text.strip()
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"option {name} is {text!r}; allowed are {TIME_FORM}") from None
    if at.tzinfo is None:
        raise ConfigError(f"option {name} is {text!r}, a time without its zone; write for example {text}Z for UTC")
    milliseconds = int(at.timestamp() * 1000)
    if milliseconds < 0:
        raise ConfigError(f"option {name} is {text!r}, a time before 1970; allowed are {TIME_FORM}")
    return milliseconds


def instants_ms(text: str, name: str) -> Positions:
    """A time per queue, in milliseconds since 1970."""
    try:
        tree = msgspec.json.decode(text, type=dict[str, dict[str, dict[int, int | str]]], strict=False)
    except msgspec.DecodeError as error:
        raise ConfigError(f"option {name} has the wrong form ({error}); write for example {_TIMES_FORM}") from None
    times = {
        MessageQueue(topic, broker, queue_id): instant_ms(str(at), name)
        for topic, brokers in tree.items()
        for broker, queues in brokers.items()
        for queue_id, at in queues.items()
    }
    if not times:
        raise ConfigError(f"option {name} names no queue; write for example {_TIMES_FORM}")
    return times
