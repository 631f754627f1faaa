"""The selection of one pull: which messages of a queue it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gantrymq.broker.filtering.predicate import Predicate, SelectorInvalid
from gantrymq.message.tags import java_hash, parse_tag_expression

if TYPE_CHECKING:
    from gantrymq.broker.filtering.evaluation import CompiledSelector

SQL92: Final = "SQL92"
_TAG_TYPES: Final = (None, "", "TAG")
MAX_TAGS_CHARACTERS: Final = 65_536
KEPT: Final = 512
"""Tag expressions whose selections are kept, over all groups: consumers send them with every pull."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Both are looked at before a message is read to a client, and before a held pull is woken."""

    tag_codes: frozenset[int] | None = None
    """Hashes of the tags that are wanted; None: all."""
    wants: Predicate | None = None
    """True for the properties of selected messages; None: all messages."""
    terms: int = 1
    """How much work ``wants`` is: its operands of AND and OR."""

    def takes(self, tags_code: int, properties_text: str) -> bool:
        """Whether a message belongs to it."""
        if self.tag_codes is not None and tags_code not in self.tag_codes:
            return False
        return self.wants is None or self.wants(properties_text)


EVERYTHING: Final = Selection()


def is_tag_type(expression_type: str | None) -> bool:
    """Whether a subscription is by tags, which is also what it is when it does not say."""
    return expression_type in _TAG_TYPES


def by_tags(expression: str) -> Selection:
    """Of ``"A || B"`` or ``"*"``; raises SelectorInvalid when it is too long."""
    if len(expression) > MAX_TAGS_CHARACTERS:
        raise SelectorInvalid(
            f"the list of tags has {len(expression)} characters; at most {MAX_TAGS_CHARACTERS} are read. Subscribe to "
            "fewer tags, or to * and choose among the messages"
        )
    return _by_tags(expression)


@lru_cache(maxsize=KEPT)
def _by_tags(expression: str) -> Selection:
    tags = parse_tag_expression(expression)
    return Selection(frozenset(java_hash(tag) for tag in tags)) if tags else EVERYTHING


def by_expression(expression: str | None, expression_type: str | None) -> Selection:
    """Of any subscription; raises SelectorInvalid."""
    if is_tag_type(expression_type):
        return by_tags(expression or "")
    if expression_type != SQL92:
        raise SelectorInvalid(f"the expression type {expression_type!r} is not known; TAG and SQL92 are")
    if not expression:
        raise SelectorInvalid("the expression is empty; subscribe to * for all messages")
    selector = compiled(expression)
    return Selection(wants=selector.wants, terms=selector.terms)


def compiled(expression: str) -> CompiledSelector:
    """Of an SQL92 expression; raises SelectorInvalid."""
    # Not at the top: most brokers never see such an expression, and what reads it takes 17 ms of a start.
    from gantrymq.broker.filtering.evaluation import compile_selector

    return compile_selector(expression)
