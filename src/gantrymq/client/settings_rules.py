"""The rules for client settings. Each field in config.py has one, which is checked when the client is created.

A rule describes the possible values in words, and reads a value: it returns the value to store, or raises Impossible.
The error that a user gets is built from both, for example: ``consume_threads must be a whole number of threads from 1
to 1000, not 0``.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final, Protocol, TypeVar, get_args, get_origin, get_type_hints, runtime_checkable

from gantrymq.errors import ConfigError, MessageIllegal
from gantrymq.message import system_topics
from gantrymq.message.arguments import shown, whole_number
from gantrymq.message.sizes import MAX_TOPIC_CHARACTERS
from gantrymq.protocol import compression
from gantrymq.runtime.addresses import split_address

T = TypeVar("T")

MAX_MS: Final = 2**31 - 1
"""Longest time, 24 days: these settings are 32-bit integers in Java's clients, and some are sent to brokers."""
LATEST_MS: Final = 253_402_300_799_999
"""Latest point in time, the end of the year 9999; a larger value was given in another unit."""
MAX_INT: Final = 2**31 - 1
MAX_ADDRESSES: Final = 100
MAX_TOPICS: Final = 10_000
NAME_SERVERS_HELP: Final = 'write it as "host:port", several as "host:port;host:port" or as a list'
_NO_NAME: Final = re.compile(r"[\s/\\]")
_IN_NAMESPACES: Final = re.compile(r"[|a-zA-Z0-9_-]+")


class Impossible(Exception):
    """The value breaks the rule. A message, if there is one, says more than the rule's own description."""


@runtime_checkable
class Rule(Protocol):
    """Which values one setting may have."""

    @property
    def possible(self) -> str:
        """The possible values in words, as the end of a sentence that begins with "must be"."""

    def read(self, value: object) -> Any:
        """The value to store. Raises Impossible."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number in a range, both ends included."""

    low: int
    high: int
    of: str = ""
    why: str = ""

    @property
    def possible(self) -> str:
        of, why = self.of and f" of {self.of}", self.why and f" ({self.why})"
        return f"a whole number{of} from {self.low} to {self.high}{why}"

    def read(self, value: object) -> int:
        number = whole_number(value)
        if number is None or not self.low <= number <= self.high:
            raise Impossible
        return number


@dataclass(frozen=True, slots=True)
class Flag:
    possible: str = "True or False"

    def read(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise Impossible
        return value


@dataclass(frozen=True, slots=True)
class FlagOrNone:
    possible: str = "True, False or None"

    def read(self, value: object) -> bool | None:
        if value is not None and not isinstance(value, bool):
            raise Impossible
        return value


@dataclass(frozen=True, slots=True)
class File:
    """The path of a file, which may be left out: None, or an empty text."""

    possible: str = "the path of a file as a text, or None"

    def read(self, value: object) -> str | None:
        absent = value is None or (isinstance(value, str) and not value)
        return None if absent else Directory().read(value)


@dataclass(frozen=True, slots=True)
class Password:
    """A secret text, which may be left out. No error shows it."""

    possible: str = "a text, or None"

    def read(self, value: object) -> str | None:
        if value is not None and (not isinstance(value, str) or not _is_utf8(value)):
            raise Impossible("it must be a text, or None")
        return value or None


@dataclass(frozen=True, slots=True)
class Named:
    """A name that may be left out: None, or an empty text."""

    possible: str
    may_be: Callable[[str], bool]

    def read(self, value: object) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or (value and not self.may_be(value)):
            raise Impossible
        return value or None


MAX_INSTANCE_BYTES: Final = 128
"""The instance name becomes part of a file name, which may have 255 bytes."""
MAX_NAMESPACE_CHARACTERS: Final = 64
"""The namespace is a prefix of topic and group names; with it they may have 127 and 120 characters."""


def _is_instance(name: str) -> bool:
    # A printable text has no control characters, and no characters that UTF-8 cannot encode.
    return name.isprintable() and not _NO_NAME.search(name) and len(name.encode()) <= MAX_INSTANCE_BYTES


def _is_namespace(name: str) -> bool:
    return len(name) <= MAX_NAMESPACE_CHARACTERS and _IN_NAMESPACES.fullmatch(name) is not None


MAX_ACCOUNT_CHARACTERS: Final = 128


def _is_account(name: str) -> bool:
    return len(name) <= MAX_ACCOUNT_CHARACTERS and name.isprintable() and not _NO_NAME.search(name)


ACCOUNT: Final = Named(
    f"a text of at most {MAX_ACCOUNT_CHARACTERS} characters without blanks and slashes, or None", _is_account
)
INSTANCE: Final = Named(
    f"a text of at most {MAX_INSTANCE_BYTES} bytes without blanks and slashes, or None", _is_instance
)
NAMESPACE: Final = Named(
    f"a text of at most {MAX_NAMESPACE_CHARACTERS} letters, digits and | - _, or None", _is_namespace
)


@dataclass(frozen=True, slots=True)
class Topic:
    """The name of a topic that clients may send to, so not one of the broker's own topics."""

    possible: str = f"the name of a topic: a text of at most {MAX_TOPIC_CHARACTERS} letters, digits and % | - _"

    def read(self, value: object) -> str:
        if not isinstance(value, str) or value in system_topics.NOT_SENDABLE:
            raise Impossible
        try:
            system_topics.check_topic(value)
        except MessageIllegal as error:
            raise Impossible from error
        return value


@dataclass(frozen=True, slots=True)
class Topics:
    possible: str = "the name of a topic, or a list of such names"

    def read(self, value: object) -> tuple[str, ...]:
        topic = Topic()
        names = (value,) if isinstance(value, str) else _texts(value, MAX_TOPICS)
        for name in names:
            try:
                topic.read(name)
            except Impossible:
                raise Impossible(f"{shown(name)} is not the name of a topic") from None
        return names


@dataclass(frozen=True, slots=True)
class Compression:
    possible: str = "ZLIB, LZ4 or ZSTD"

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise Impossible
        try:
            compression.flags_of(value)
        except ConfigError as error:
            raise Impossible(str(error)) from error
        return value


@dataclass(frozen=True, slots=True)
class Directory:
    possible: str = "the path of a directory as a text"

    def read(self, value: object) -> str:
        try:
            path = os.fspath(value)  # type: ignore[call-overload]
        except TypeError as error:
            raise Impossible from error
        if not isinstance(path, str) or not path.strip() or "\0" in path or not _is_utf8(path):
            raise Impossible
        return path


@dataclass(frozen=True, slots=True)
class Addresses:
    possible: str = 'an address as "host:port", or several as "host:port;host:port" or as a list'

    def read(self, value: object) -> tuple[str, ...]:
        texts = (value,) if isinstance(value, str) else _texts(value, MAX_ADDRESSES)
        for text in texts:
            if not isinstance(text, str):
                raise Impossible(f"{shown(text)} is not an address; {NAME_SERVERS_HELP}")
        parts = ";".join(texts).replace(",", ";").split(";")
        addresses = tuple(part.strip() for part in parts if part.strip())
        if not addresses:
            raise Impossible(f"no name server is given; {NAME_SERVERS_HELP}")
        for address in addresses:
            if not _is_address(address):
                raise Impossible(f"{shown(address)} is not an address; {NAME_SERVERS_HELP}")
        return addresses


def _is_address(address: str) -> bool:
    try:
        host, port = split_address(address)
        if not port:
            return False
        if ":" in host:
            ipaddress.IPv6Address(host)
        host.encode("idna")  # a look-up of the name does this first, and raises a less helpful error
    except ValueError:
        return False
    return bool(host) and host.isprintable() and not _NO_NAME.search(host)


def _texts(value: object, most: int) -> tuple[Any, ...]:
    """The items of a list or another iterable. Raises Impossible for bytes and mappings, and for too many items."""
    if isinstance(value, bytes | bytearray | memoryview | Mapping) or not isinstance(value, Iterable):
        raise Impossible
    parts = tuple(islice(value, most + 1))
    if len(parts) > most:
        raise Impossible(f"at most {most} are possible")
    return parts


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# How the rules are used.


def rules_of(kind: type[Any]) -> Mapping[str, Rule]:
    """The rules of a class of settings, by field."""
    found = _rules.get(kind)
    if found is None:
        found = _rules[kind] = {
            name: next(part for part in get_args(hint)[1:] if isinstance(part, Rule))
            for name, hint in get_type_hints(kind, include_extras=True).items()
            if get_origin(hint) is Annotated
        }
    return found


_rules: Final[dict[Any, Mapping[str, Rule]]] = {}
"""The rules found so far, by class; there are six classes."""


def read_setting(name: str, value: object, rule: Rule) -> Any:
    """The value to store. Raises ConfigError, which names the setting, the given value and the possible ones."""
    try:
        return rule.read(value)
    except Impossible as error:
        more = f"{name}: {error}" if error.args else f"{name} must be {rule.possible}, not {shown(value)}"
    raise ConfigError(more)


POSITION: Final = Whole(-(2**63), 2**63 - 1)
"""An offset or a point in time, as an argument of a call. The broker checks that an offset lies within the queue."""
TIMEOUT: Final = Whole(1, MAX_MS, "milliseconds")
WAIT: Final = Whole(0, MAX_MS, "milliseconds")


def check_timeout(timeout_ms: object, rule: Whole = TIMEOUT) -> None:
    """For the argument ``timeout_ms`` of a call; None means the client's setting. Raises ConfigError."""
    if timeout_ms is not None:
        read_setting("timeout_ms", timeout_ms, rule)


def check_longer(longer: str, long_ms: int, shorter: str, short_ms: int, else_what: str) -> None:
    """Raise ConfigError naming both settings when the first time is not longer than the second."""
    if long_ms <= short_ms:
        raise ConfigError(f"{longer}={long_ms} must be longer than {shorter}={short_ms}; else {else_what}")
