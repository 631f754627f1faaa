"""Parses the text of a selector into a tree: recursive descent, weakest operator first.

The parser accepts what Apache's parser accepts, and refuses what that refuses: it ignores text behind a complete
expression (``Selector.ignored``), refuses ``0.0``, and compares texts only for equality. Source: SelectorParser.jj,
ComparisonExpression.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from gantrymq.broker.filtering.expressions import (
    BOOLEAN,
    And,
    Between,
    Compare,
    Comparison,
    Decimal,
    In,
    IsNull,
    Negate,
    Node,
    Not,
    Null,
    Or,
    Property,
    Text,
    TextMatch,
    TextTest,
    Truth,
    Whole,
    to_text,
)
from gantrymq.broker.filtering.predicate import SelectorInvalid
from gantrymq.broker.filtering.tokens import Token, TokenKind, tokens

MAX_CHARACTERS: Final = 65_536
"""Of a whole selector. It is read in one turn of the broker's loop, and comes again with every pull of some clients."""
MAX_TERMS: Final = 1_000
"""Operands of AND and OR in one selector, brackets included: each may be looked at for every message."""
MAX_VALUES: Final = 5_000
"""Texts in all lists of IN of one selector."""
MAX_DIGITS: Final = 19
"""Of the greatest whole number."""
SHOWN: Final = 64
"""Characters of a part that an error quotes."""
MAX_NESTING: Final = 50
"""Brackets and signs within each other: every one costs the parser and the evaluation some frames of the stack."""
MAX_CHAINED: Final = 20
"""Comparisons of comparisons (``a = b = c``) in one selector, for the same reason; nobody writes even two."""
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1

_ORDERINGS: Final = {sign.value: sign for sign in Comparison if sign not in (Comparison.EQUAL, Comparison.NOT_EQUAL)}
_EQUALITIES: Final = {sign.value: sign for sign in (Comparison.EQUAL, Comparison.NOT_EQUAL)}
_TESTS: Final = {test.value: test for test in TextTest}
_LITERALS: Final[dict[str, Node]] = {"TRUE": Truth(True), "FALSE": Truth(False), "NULL": Null()}


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector."""

    root: Node
    terms: int = field(default=1, compare=False)
    """Operands of AND and OR: what it costs to look at a message."""
    ignored: str = ""
    """What stands behind the whole expression and has no effect, here as in Apache's broker."""


def parse(text: str) -> Selector:
    """Raises SelectorInvalid."""
    if len(text) > MAX_CHARACTERS:
        raise SelectorInvalid(f"it has {len(text)} characters; at most {MAX_CHARACTERS} are read. {_SHORTER}")
    return _Parser(text).selector()


_SHORTER: Final = "Give the messages a property that says what these consumers want, and select by that"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._ahead: deque[Token] = deque()
        self._nesting = 0
        self._chained = 0
        self._terms = 0
        self._values = 0

    # Tokens. No further one is looked at than the grammar needs: what is ignored may be anything.

    def _peek(self, distance: int = 0) -> Token:
        while len(self._ahead) <= distance:
            self._ahead.append(next(self._tokens))
        return self._ahead[distance]

    def _take(self) -> Token:
        token = self._peek()
        self._ahead.popleft()
        return token

    def _is(self, *words: str) -> bool:
        """Whether the next tokens are these keywords or signs."""
        for distance, word in enumerate(words):
            token = self._peek(distance)
            if token.kind not in (TokenKind.KEYWORD, TokenKind.SIGN) or token.text != word:
                return False
        return True

    def _accept(self, *words: str) -> bool:
        if not self._is(*words):
            return False
        for _ in words:
            self._ahead.popleft()
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._unexpected(word)

    def _unexpected(self, wanted: str) -> SelectorInvalid:
        token = self._peek()
        found = "the end" if token.kind is TokenKind.END else repr(token.text[:SHOWN])
        return SelectorInvalid(f"{wanted} expected at character {token.start + 1}, found {found}")

    # The grammar.

    def selector(self) -> Selector:
        root = _as_boolean(self._or())
        rest = self._peek()
        return Selector(root, self._terms, "" if rest.kind is TokenKind.END else self._text[rest.start :])

    def _or(self) -> Node:
        operands = [self._and()]
        while self._accept("OR"):
            operands.append(self._and())
        return operands[0] if len(operands) == 1 else Or(tuple(map(_as_boolean, operands)))

    def _and(self) -> Node:
        operands = [self._equality()]
        while self._accept("AND"):
            operands.append(self._equality())
        return operands[0] if len(operands) == 1 else And(tuple(map(_as_boolean, operands)))

    def _equality(self) -> Node:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise SelectorInvalid(f"it has more than {MAX_TERMS} operands of AND and OR. {_SHORTER}")
        left = self._comparison()
        while True:
            if self._accept("IS"):
                negated = self._accept("NOT")
                self._expect("NULL")
                left = self._chain(left, IsNull(left, negated))
                continue
            sign = _EQUALITIES.get(self._peek().text) if self._peek().kind is TokenKind.SIGN else None
            if sign is None:
                return left
            self._take()
            right = self._comparison()
            _check_equality(left, right)
            left = self._chain(left, Compare(sign, left, right))

    def _chain(self, left: Node, made: Node) -> Node:
        if isinstance(left, BOOLEAN):
            self._chained += 1
            if self._chained > MAX_CHAINED:
                raise SelectorInvalid(f"more than {MAX_CHAINED} nested comparisons")
        return made

    def _comparison(self) -> Node:
        left = self._unary()
        while True:
            made = self._compared(left)
            if made is None:
                return left
            left = self._chain(left, made)

    def _compared(self, left: Node) -> Node | None:
        """``left`` with the comparison that follows it; None when none does."""
        negated = self._is("NOT")
        token = self._peek(1 if negated else 0)
        if token.kind is TokenKind.SIGN and not negated and token.text in _ORDERINGS:
            self._take()
            right = self._unary()
            _check_ordered(left, right)
            return Compare(_ORDERINGS[token.text], left, right)
        if token.kind is not TokenKind.KEYWORD or token.text not in ("BETWEEN", "IN", *_TESTS):
            if negated:
                self._take()
                raise self._unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
            return None
        if negated:
            self._take()
        self._take()
        if token.text == "BETWEEN":
            return self._between(left, negated)
        if token.text == "IN":
            return self._in(left, negated)
        return TextMatch(_TESTS[token.text], left, self._literal_text(), negated)

    def _between(self, left: Node, negated: bool) -> Node:
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        _check_ordered(left, low, high)
        if (
            not negated
            and isinstance(low, Whole | Decimal)
            and isinstance(high, Whole | Decimal)
            and high.value < low.value
        ):
            raise SelectorInvalid(f"nothing is between {to_text(low)} and {to_text(high)}; write the smaller one first")
        return Between(left, low, high, negated)

    def _in(self, left: Node, negated: bool) -> Node:
        self._expect("(")
        values = [self._literal_text()]
        while self._accept(","):
            values.append(self._literal_text())
            if self._values + len(values) > MAX_VALUES:
                raise SelectorInvalid(f"it has more than {MAX_VALUES} texts in lists of IN. {_SHORTER}")
        self._values += len(values)
        self._expect(")")
        if not isinstance(left, Property):
            raise SelectorInvalid(f"IN needs a property on its left, found {to_text(left)}")
        return In(left, tuple(values), negated)

    def _literal_text(self) -> str:
        if self._peek().kind is not TokenKind.TEXT:
            raise self._unexpected("a text in single quotes")
        return self._take().text

    def _unary(self) -> Node:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise SelectorInvalid(f"more than {MAX_NESTING} brackets and signs within each other")
        made: Node
        if self._accept("+"):
            made = self._unary()
        elif self._accept("-"):
            made = Negate(self._unary())
        elif self._accept("NOT"):
            made = Not(_as_boolean(self._unary()))
        else:
            made = self._primary()
        self._nesting -= 1
        return made

    def _primary(self) -> Node:
        if self._accept("("):
            inner = self._or()
            self._expect(")")
            return inner
        token = self._peek()
        if token.kind is TokenKind.KEYWORD and token.text in _LITERALS:
            self._take()
            return _LITERALS[token.text]
        if token.kind not in (TokenKind.NAME, TokenKind.TEXT, TokenKind.WHOLE, TokenKind.DECIMAL):
            raise self._unexpected("a property, a literal or (")
        self._take()
        if token.kind is TokenKind.NAME:
            return Property(token.text)
        if token.kind is TokenKind.TEXT:
            return Text(token.text)
        return _whole(token.text) if token.kind is TokenKind.WHOLE else _decimal(token.text)


# What may stand where.


def _as_boolean(node: Node) -> Node:
    if isinstance(node, (*BOOLEAN, Property)):
        return node
    raise SelectorInvalid(f"{to_text(node)} is neither true nor false; compare it with something")


def _check_ordered(*operands: Node) -> None:
    """Of <, <=, >, >= and BETWEEN: properties, and numbers."""
    for node in operands:
        if isinstance(node, (Text, *BOOLEAN)):
            raise SelectorInvalid(f"{to_text(node)} cannot be compared by <, <=, >, >= or BETWEEN; numbers can")


def _check_equality(left: Node, right: Node) -> None:
    if isinstance(left, Null) or isinstance(right, Null):
        raise SelectorInvalid("NULL cannot be compared; write IS NULL or IS NOT NULL")
    if isinstance(left, Truth) and isinstance(right, Text | Whole | Decimal):
        raise SelectorInvalid(f"{to_text(left)} cannot be compared with {to_text(right)}")


def _whole(text: str) -> Whole:
    digits = text.rstrip("lL")
    value = int(digits) if len(digits) <= MAX_DIGITS else LONG_MAX + 1
    if value > LONG_MAX:
        raise SelectorInvalid(f"{digits[:SHOWN]} is greater than {LONG_MAX}, the greatest whole number")
    return Whole(value)


def _decimal(text: str) -> Decimal:
    value = float(text)
    if value == float("inf"):
        raise SelectorInvalid(f"{text[:SHOWN]} is greater than the greatest double")
    if value == 0:
        raise SelectorInvalid(f"{text[:SHOWN]} is less than the smallest double; write 0")
    return Decimal(value)
