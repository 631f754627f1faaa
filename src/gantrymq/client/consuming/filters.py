"""Which messages of a topic a consumer subscribes to: all, those with certain tags, or those selected by an SQL
expression.

Source: FilterAPI, MessageSelector; docs/selectors.md.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.message.arguments import shown
from gantrymq.message.heartbeat import ALL, SubscriptionData
from gantrymq.message.tags import parse_tag_expression

TAG: Final = "TAG"
SQL92: Final = "SQL92"


class Filter(msgspec.Struct, frozen=True):
    """One subscription's expression."""

    text: str = ALL
    kind: str = TAG

    @property
    def tags(self) -> str:
        """The tags that the consumer itself must check, because brokers compare only the hash of a tag. SQL expressions
        are evaluated by brokers alone."""
        return self.text if self.kind == TAG else ALL

    def subscription(self, topic: str, version: int) -> SubscriptionData:
        """The subscription in the form that a heartbeat carries. ``version``: ms since 1970."""
        if self.kind == TAG:
            return SubscriptionData.of_tags(topic, self.text, version)
        return SubscriptionData(
            topic=topic, sub_string=self.text, sub_version=version, expression_type=SQL92, class_filter_mode=False
        )


EVERYTHING: Final = Filter()


def filter_of(tags: str, sql: str | None = None) -> Filter:
    """``tags``: ``"*"`` (or nothing) for all messages, or ``"A || B"``. ``sql``: an SQL92 expression instead.

    Raises ConfigError for both at once, and for an expression without any tag. (Java's client refuses ``"||"``, but
    accepts ``" || "``, a subscription that no message ever matches.)
    """
    if not isinstance(tags, str):
        raise ConfigError(f'tags must be a text as "A || B", or "*" for all messages, not {shown(tags)}')
    if sql is not None:
        if not isinstance(sql, str):
            raise ConfigError(f"sql must be an expression as a text, not {shown(sql)}")
        if tags.strip() not in ("", ALL):
            raise ConfigError("give tags or sql, not both; TAGS can be compared within the SQL expression")
        if not sql.strip():
            raise ConfigError("the sql expression is blank; leave it out to get every message")
        return Filter(sql, SQL92)
    if tags.strip() not in ("", ALL) and not parse_tag_expression(tags):
        raise ConfigError(f'the tag expression {tags!r} names no tag; write "*" for all messages, or "A || B"')
    return Filter(tags)
