"""Topics as brokers declare them, and plain tables. Source: TopicConfig, DataVersion."""

from __future__ import annotations

from typing import Final

from msgspec import field

from gantrymq.protocol.bodies.body import Body
from gantrymq.protocol.numbers import Int, Long

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
"""Other topics may be created with this topic as their template."""

ORDER_TOPIC_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class DataVersion(Body, frozen=True, kw_only=True):
    """How new a table is: it changes with every change of the table."""

    counter: Long = 0
    timestamp: Long = 0
    """Milliseconds since 1970."""
    state_version: Long | None = None
    """5.x; only used in controller mode."""

    def next(self, now_ms: int) -> DataVersion:
        return DataVersion(counter=self.counter + 1, timestamp=now_ms, state_version=self.state_version)


class TopicConfig(Body, frozen=True, kw_only=True):
    """A topic on one broker."""

    topic_name: str
    read_queue_nums: Int = 16
    write_queue_nums: Int = 16
    perm: Int = PERM_READ | PERM_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int = 0
    order: bool = False
    attributes: dict[str, str] | None = None
    """5.x; among them ``message.type``."""


class TopicTable(Body, frozen=True, kw_only=True):
    """All topics of a broker, or those that changed. Source: TopicConfigAndMappingSerializeWrapper."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_detail_map: dict[str, object] | None = None
    topic_queue_mapping_info_map: dict[str, object] | None = None


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
