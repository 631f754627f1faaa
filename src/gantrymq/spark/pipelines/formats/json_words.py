"""What msgspec says of a body that it refuses, in words for those who read dead letters. Texts in and out, no I/O."""

from __future__ import annotations

import re
from typing import Final

_PLACE: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(?: (<=|>=) (\S+))?(?:, got `(\w+)`)?")
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_AT_BYTE: Final = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_WORDS: Final = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "object": "an object",
    "array": "a list", "null": "null", "date": "a date such as 2026-01-31", "bytes": "a text of Base64",
}  # fmt: skip


def of_value(said: str) -> str:
    """Why a value does not have the type of its column."""
    match = _PLACE.fullmatch(said)
    text, place = (match.group(1), match.group(2)) if match else (said, None)
    column = f"the column {place}" if place else "the body"
    if missing := _MISSING.fullmatch(text):
        inside = f" of {place}" if place else ""
        return f"the column {missing.group(1)}{inside} is missing"
    expected = _EXPECTED.fullmatch(text)
    if expected is None:
        return f"{column} is not valid: {text[:1].lower()}{text[1:]}"
    kind, _, bound, got = expected.groups()
    if bound is not None:
        return f"{column} is out of range: {'more' if '<' in text else 'less'} than {bound}"
    wanted = next((_WORDS[one] for one in kind.split(" | ") if one in _WORDS and one != "null"), kind)
    return f"{column} must be {wanted}, and is {_WORDS.get(got, got)}"


def of_text(body: bytes, said: str) -> str:
    """Why a body is not JSON."""
    match = _AT_BYTE.fullmatch(said)
    why, at = (match.group(1), int(match.group(2))) if match else (said, None)
    if not body.strip():
        return "the body is empty"
    if b"\0" in body:
        return f"the body is not JSON: byte {body.index(0)} is NUL"
    if why == "trailing characters" and at is not None:
        return f"the body must be one JSON object, and something follows it at byte {at - 1}"  # it counts that one
    if at is not None and body[at : at + 1] == b"'":
        return f"the body is not JSON: a text begins with a single quote at byte {at}; JSON has double quotes"
    if at is None:
        return "the body is not JSON: it ends too early, or has half of a surrogate pair"
    return f"the body is not JSON: {why} near byte {at}"
