"""Reads JSON as Java peers write it (fastjson 1.x): standard JSON, and in addition

* keys that are unquoted integers:               {0:"10.0.0.1:10911"}
* keys that are objects:                         {{"brokerName":"b","queueId":0,"topic":"T"}:5}
* references to another value, by its path:      {"$ref":"$.consumerTable.c1"}

:func:`loads` returns plain Python values whose keys are texts. An integer key becomes its digits, an object key its
compact JSON with sorted keys, and a reference the value that it names. Writing never needs this dialect, because Java
accepts quoted integers, and texts instead of object keys.

Source: JSONSerializer, MapSerializer of fastjson 1.2; docs/protocol.md#json-bodies.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import msgspec

from gantrymq.errors import RemoteProtocolError

MAX_DEPTH: Final = 64
"""How deep objects and arrays may be nested; RocketMQ's own bodies need seven levels."""
MAX_REFERENCES: Final = 1000
"""References in one text. Each may stand for a large value, so without a limit a small text could become a huge value.
"""

_BLANKS: Final = frozenset(" \t\r\n")
_INTEGER: Final = re.compile(r"-?\d+")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORDS: Final = (("true", True), ("false", False), ("null", None))
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\"((?:[^\"\\]|\\.)*)\"\]")


def loads(data: bytes) -> Any:
    """The value of a JSON text in Java's dialect. Raises RemoteProtocolError when the text is malformed."""
    try:
        if b'"$ref"' not in data:
            return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # not standard JSON, but it may be Java's dialect
    try:
        return _Reader(data.decode()).whole()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"the JSON text is not UTF-8: {error}") from error


class _Reference:
    """A reference, which is replaced by its value when the whole text has been read."""

    __slots__ = ("holder", "path")

    def __init__(self, path: str, holder: tuple[Any, ...]) -> None:
        self.path = path
        self.holder = holder
        """The containers around the reference, outermost first."""


class _Reader:
    """A recursive-descent parser for one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[Any] = []
        self._references: list[tuple[Any, Any, _Reference]] = []
        """Container, key or index in it, and the reference whose value belongs there."""

    def whole(self) -> Any:
        value = self._value()
        self._skip_blank()
        if self._at != len(self._text):
            self._fail("nothing more")
        if isinstance(value, _Reference):
            self._fail("a value that is no reference to itself")
        self._resolve(value)
        return value

    def _value(self) -> Any:
        self._skip_blank()
        first = self._text[self._at : self._at + 1]
        if first == "{":
            return self._object()
        if first == "[":
            return self._array()
        if first == '"':
            return self._string()
        for word, value in _WORDS:
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        return self._number()

    def _object(self) -> Any:
        result: dict[str, Any] = {}
        self._enter(result)
        while not self._closes("}", bool(result)):
            key = self._key()
            self._expect(":")
            self._put(result, key, self._value())
        self._open.pop()
        path = result.get("$ref")
        if len(result) == 1 and isinstance(path, str):
            return _Reference(path, tuple(self._open))
        return result

    def _array(self) -> list[Any]:
        result: list[Any] = []
        self._enter(result)
        while not self._closes("]", bool(result)):
            result.append(None)
            self._put(result, len(result) - 1, self._value())
        self._open.pop()
        return result

    def _enter(self, container: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise RemoteProtocolError(f"the JSON text nests deeper than {MAX_DEPTH} levels")
        self._open.append(container)
        self._at += 1

    def _closes(self, bracket: str, has_items: bool) -> bool:
        """Step over the closing bracket (True), or over the comma between two items."""
        self._skip_blank()
        if self._text.startswith(bracket, self._at):
            self._at += 1
            return True
        if has_items:
            self._expect(",")
        return False

    def _put(self, container: Any, key: Any, value: Any) -> None:
        if isinstance(value, _Reference):
            if len(self._references) >= MAX_REFERENCES:
                raise RemoteProtocolError(f"the JSON text has more than {MAX_REFERENCES} references")
            self._references.append((container, key, value))
            value = None
        container[key] = value

    def _key(self) -> str:
        self._skip_blank()
        first = self._text[self._at : self._at + 1]
        if first == '"':
            return self._string()
        if first == "{":
            value = self._object()
            if isinstance(value, _Reference):
                self._fail("a key that can be read without following a reference")
            return msgspec.json.encode(value, order="sorted").decode()
        match = _INTEGER.match(self._text, self._at)
        if match is None:
            self._fail("a key: a string, an integer or an object")
        self._at = match.end()
        return match.group()

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            self._fail("the end of a string")
        try:
            text: str = msgspec.json.decode(match.group(), type=str)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise RemoteProtocolError(f"malformed JSON string at character {self._at}: {error}") from error
        self._at = match.end()
        return text

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            self._fail("a value")
        try:
            number = float(match.group()) if match.group(1) or match.group(2) else int(match.group())
        except ValueError as error:  # more digits than Python converts
            raise RemoteProtocolError(f"malformed JSON number at character {self._at}: {error}") from error
        self._at = match.end()
        return number

    def _expect(self, mark: str) -> None:
        self._skip_blank()
        if not self._text.startswith(mark, self._at):
            self._fail(repr(mark))
        self._at += 1

    def _skip_blank(self) -> None:
        while self._text[self._at : self._at + 1] in _BLANKS:
            self._at += 1

    def _fail(self, expected: str) -> NoReturn:
        found = self._text[self._at : self._at + 20]
        raise RemoteProtocolError(f"malformed JSON at character {self._at}: expected {expected}, found {found!r}")

    def _resolve(self, root: Any) -> None:
        # A reference may only name a complete value without references in it. fastjson writes no others for RocketMQ's
        # bodies. So neither a cycle nor a value that doubles at every level is possible.
        unfinished = {id(container) for _, _, reference in self._references for container in reference.holder}
        for container, key, reference in self._references:
            value = _follow(root, reference)
            if id(value) in unfinished:
                raise RemoteProtocolError(f"the JSON reference {reference.path!r} names a value that holds references")
            container[key] = value


def _follow(root: Any, reference: _Reference) -> Any:
    path = reference.path
    if path == "@":
        return reference.holder[-1]
    if path == "..":
        return reference.holder[-2] if len(reference.holder) > 1 else root
    value, position = root, 1
    if not path.startswith("$"):
        raise RemoteProtocolError(f"the JSON reference {path!r} is of an unknown form")
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise RemoteProtocolError(f"the JSON reference {path!r} is of an unknown form")
        position = step.end()
        name, index, quoted = step.groups()
        try:
            value = value[int(index)] if isinstance(value, list) else value[name or index or quoted]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"the JSON reference {path!r} names nothing") from error
    return value
