"""Splits the text of a selector into tokens. Source: SelectorParser.jj (tokens)."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.filtering.predicate import SelectorInvalid


class TokenKind(enum.Enum):
    KEYWORD = "keyword"
    NAME = "name"
    TEXT = "text"
    WHOLE = "whole number"
    DECIMAL = "decimal number"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    """Keywords in capitals, text literals without their quotes."""
    start: int
    """Characters before it."""


KEYWORDS: Final = frozenset(
    {
        "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS",
        "CONTAINS", "STARTSWITH", "ENDSWITH",
    }
)  # fmt: skip

# A line comment needs its end of line, as in Apache's parser: without one, its first sign is a minus.
_SKIPPED: Final = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*.*?\*/)*", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""(?P<DECIMAL>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
      | (?P<WHOLE>0|[1-9][0-9]*[lL]?)
      | (?P<TEXT>'[^']*(?:''[^']*)*')
      | (?P<NAME>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<SIGN><>|<=|>=|[=<>(),+-])""",
    re.VERBOSE,
)


def tokens(text: str) -> Iterator[Token]:
    """The tokens, one by one as they are asked for, and END for ever; raises SelectorInvalid at a stray character."""
    at = 0
    while True:
        skipped = _SKIPPED.match(text, at)
        at = skipped.end() if skipped is not None else at
        if at == len(text):
            yield Token(TokenKind.END, "", at)
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            raise SelectorInvalid(f"{text[at]!r} at character {at + 1} {_hint(text[at:])}")
        yield _token(found)
        at = found.end()


def _token(found: re.Match[str]) -> Token:
    kind, word, start = TokenKind[found.lastgroup or ""], found[0], found.start()
    if kind is TokenKind.NAME and word.upper() in KEYWORDS:
        return Token(TokenKind.KEYWORD, word.upper(), start)
    if kind is TokenKind.TEXT:
        return Token(kind, word[1:-1].replace("''", "'"), start)
    return Token(kind, word, start)


def _hint(rest: str) -> str:
    if rest.startswith("'"):
        return "begins a text that does not end"
    if rest.startswith(("!=", "==")):
        return "is not known: write <> or ="
    if rest.startswith('"'):
        return "is not known: texts stand in single quotes"
    return "is not known"
