"""Lists of topics, and plain tables. The topics themselves: ``protocol.files.topics``."""

from __future__ import annotations

from typing import Final

from msgspec import field

from gantrymq.protocol.body import Body
from gantrymq.protocol.files.topics import TopicConfig

ORDER_TOPIC_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class TopicConfigList(Body, frozen=True, kw_only=True):
    """Request body of UPDATE_AND_CREATE_TOPIC_LIST."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)


class TopicList(Body, frozen=True, kw_only=True):
    """Answer to the requests for lists of topics."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


class KVTable(Body, frozen=True, kw_only=True):
    """A table of texts by name, for example the runtime figures of a broker, or a namespace of a name server."""

    table: dict[str, str] = field(default_factory=dict)
