"""Topics as ``config/topics.json`` has them. Registrations and answers to tools carry the same objects.

Source: TopicConfig, DataVersion, TopicConfigAndMappingSerializeWrapper; docs/store.md#configuration-files.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.body import Body

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
"""Other topics may be created with this topic as their template."""


MESSAGE_TYPE: Final = "message.type"
"""The attribute that says it."""


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

    @property
    def message_type(self) -> str:
        """For which type of messages it was made (``message_types.TOPIC_TYPES``); empty: for all."""
        return (self.attributes or {}).get(MESSAGE_TYPE, "")


class TopicTable(Body, frozen=True, kw_only=True):
    """All topics of a broker, or those that changed. Source: TopicConfigAndMappingSerializeWrapper."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_detail_map: dict[str, object] | None = None
    topic_queue_mapping_info_map: dict[str, object] | None = None


class TopicsFile(Body, frozen=True, kw_only=True):
    """The file."""

    data_version: DataVersion = DataVersion(state_version=0)
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
