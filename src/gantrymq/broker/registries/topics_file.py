"""What ``config/topics.json`` holds."""

from __future__ import annotations

import msgspec

from gantrymq.protocol.bodies.topics import DataVersion, TopicConfig


class TopicsFile(msgspec.Struct, rename="camel"):
    data_version: DataVersion = DataVersion(state_version=0)
    topic_config_table: dict[str, TopicConfig] = msgspec.field(default_factory=dict)
