"""The topics of a broker, stored in ``config/topics.json``.

Source: TopicConfigManager; docs/store.md#configuration-files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.registries.entry_texts import body_with, file_texts, pretty_with, wire_texts
from gantrymq.broker.registries.json_file import read_json
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message import system_topics
from gantrymq.message.message_types import TOPIC_TYPES
from gantrymq.protocol.files.topics import (
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    TopicConfig,
    TopicsFile,
    TopicTable,
)
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk, write_durably

PERM_READ_WRITE: Final = PERM_READ | PERM_WRITE
PERM_TEMPLATE: Final = PERM_READ | PERM_WRITE | PERM_INHERIT
MAX_QUEUES: Final = 4096
"""Queues of one topic; every queue is a directory."""
MESSAGE_TYPE: Final = "message.type"
"""Attribute that says what may be sent to a topic; without it everything may."""


class TooMany(GantryError):
    """There is no room for another topic or group. The sentence says what to do."""


class Topics:
    """Topic name to settings. Every change is on the disk before the call returns, then ``changed`` is called."""

    def __init__(self, config: LiveConfig, disk: Disk, clock: Clock, path: str) -> None:
        """Raises ConfigError when the file is there and cannot be read."""
        self._config = config
        self._disk = disk
        self._clock = clock
        self._path = path
        self.changed: list[Callable[[list[TopicConfig]], None]] = []
        """Called with the topics that are new or different; with an empty list when one was deleted."""
        self._table: dict[str, TopicConfig] = {}
        self._version = DataVersion(state_version=0, timestamp=clock.wall_ms())
        self._file_texts, self._wire_texts = file_texts(), wire_texts()
        self._encoded = b""
        """The answer to whoever asks for everything; empty until somebody does."""
        self.follows = False
        """Whether the table is that of another broker: no topic is made here then."""
        self._load()
        self._add_system_topics()

    def _load(self) -> None:
        content = read_json(self._disk, self._path)
        if content is None:
            return
        try:
            table = msgspec.convert(_without_nulls(content), TopicsFile, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{self._path} is not a table of topics: {error}; repair or remove it") from error
        self._table = table.topic_config_table
        self._version = table.data_version

    def _add_system_topics(self) -> None:
        made = system_topic_configs(self._config)
        self._system = {topic.topic_name for topic in made} | system_topics.NOT_SENDABLE
        missing = [topic for topic in made if topic.topic_name not in self._table]
        if missing:
            self._put(missing)

    # Questions.

    def get(self, topic: str) -> TopicConfig | None:
        return self._table.get(topic)

    def exists(self, topic: str) -> bool:
        return topic in self._table

    def names(self) -> list[str]:
        return list(self._table)

    def is_system(self, topic: str) -> bool:
        """Whether every broker has such a topic, or a broker makes it for itself."""
        return topic in self._system

    @property
    def version(self) -> DataVersion:
        return self._version

    def table(self) -> TopicTable:
        """Everything, as name servers and tools get it. A read-only broker hides the write permission of its topics."""
        topics = self._table
        permission = self._config.identity.broker_permission
        if not permission & PERM_WRITE or not permission & PERM_READ:
            mask = permission | PERM_INHERIT
            topics = {
                name: msgspec.structs.replace(topic, perm=topic.perm & mask) for name, topic in self._table.items()
            }
        return TopicTable(
            data_version=self._version,
            topic_config_table=topics,
            mapping_data_version=DataVersion(state_version=0),
            topic_queue_mapping_detail_map={},
            topic_queue_mapping_info_map={},
        )

    def encoded_table(self) -> bytes:
        """``table`` as the body of an answer, which costs little however many topics there are."""
        if not self._encoded:
            table = self.table()
            empty = msgspec.structs.replace(table, topic_config_table={})
            texts = self._wire_texts.of(table.topic_config_table)
            self._encoded = body_with(empty.encode(), "topicConfigTable", texts)
        return self._encoded

    # Changes.

    def check_room(self, more: Iterable[str]) -> None:
        """Raises TooMany unless these topics fit, as far as they are new. Topics of the system always do."""
        most = self._config.topics.max_topics
        new = {name for name in more if name not in self._table}
        if most and new and len(self._table) + len(new) > most:
            raise TooMany(
                f"this broker has {len(self._table)} topics, and at most {most} (maxTopics); delete topics that nobody "
                "needs, or raise it"
            )

    def update(self, *topics: TopicConfig) -> bool:
        """Create or alter topics with one write; False when nothing is different. Not durable: raises StoreError, and
        nothing is changed; TooMany likewise."""
        wanted = {topic.topic_name: topic for topic in topics}  # of two with one name the last one counts
        self.check_room(wanted)
        new = [topic for name, topic in wanted.items() if self._table.get(name) != topic]
        if new:
            self._put(new)
        return bool(new)

    def create_for_send(self, topic: str, template: str, wanted_queues: int) -> TopicConfig | None:
        """The topic made by a first send, after the example of ``template``; None when that is not allowed. Raises
        TooMany."""
        example = self._table.get(template)
        if example is None or not example.perm & PERM_INHERIT:
            return None
        if template == system_topics.AUTO_CREATE and not self._config.topics.auto_create_topic_enable:
            return None
        self.check_room([topic])
        queues = max(1, min(wanted_queues, example.write_queue_nums))
        perm = example.perm & ~PERM_INHERIT
        made = TopicConfig(
            topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm,
            topic_sys_flag=example.topic_sys_flag, attributes={},
        )  # fmt: skip
        self._put([made])
        return made

    def take(self, table: Mapping[str, TopicConfig], version: DataVersion) -> None:
        """Have the table of another broker, with its version, from now on; durable when this returns. It is replaced
        with one write: at no moment a topic is missing that both have. Raises StoreError; then nothing is changed."""
        before = self._table
        self._write(dict(table), version)
        self._announce([topic for name, topic in table.items() if before.get(name) != topic])
        if before.keys() - table.keys():
            self._announce([])

    def lead(self, epoch: int = 0) -> None:
        """The table is this broker's own from now on. ``epoch``: of a primary that was elected. Name servers let it
        take the place of one of an earlier epoch that seems to be alive. Source: DataVersion.stateVersion."""
        self.follows = False
        self._add_system_topics()
        if epoch:
            self._version = msgspec.structs.replace(self._version, state_version=epoch)
            self._save(self._table)

    def permission_changed(self) -> None:
        """The broker's own permission may have changed: the name servers must be told."""
        if self._config.topics.auto_create_topic_enable:
            self._add_system_topics()
        self._encoded = b""
        self._announce([])

    def ensure(self, topic: str, queues: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
        """The topic; made when absent. For retry, dead-letter and system topics, which are not counted: without them
        messages that are there already could not be delivered."""
        self.ensure_all({topic: queues}, perm)
        return self._table[topic]

    def ensure_all(self, wanted: Mapping[str, int], perm: int = PERM_READ_WRITE) -> list[TopicConfig]:
        """The same for several topics, with their queues and one write. Returns those that were made."""
        made = [
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm, attributes={})
            for topic, queues in wanted.items()
            if topic not in self._table and not self.follows
        ]
        if made:
            self._put(made)
        return made

    def delete(self, *topics: str) -> bool:
        """Forget topics with one write; False when none was there. Their messages stay in the log until retention
        removes them."""
        gone = {topic for topic in topics if topic in self._table}
        if not gone:
            return False
        self._save({name: topic for name, topic in self._table.items() if name not in gone})
        self._announce([])
        return True

    def _put(self, topics: Iterable[TopicConfig]) -> None:
        new = list(topics)
        self._save(self._table | {topic.topic_name: topic for topic in new})
        self._announce(new)

    def _save(self, table: dict[str, TopicConfig]) -> None:
        self._write(table, self._version.next(self._clock.wall_ms()))

    def _write(self, table: dict[str, TopicConfig], version: DataVersion) -> None:
        # First the disk, then the memory: a topic that was answered must not vanish in a crash.
        texts = self._file_texts.of(table)
        content = pretty_with({"dataVersion": msgspec.to_builtins(version)}, "topicConfigTable", texts)
        write_durably(self._disk, self._path, content.encode())
        self._table = table
        self._version = version
        self._encoded = b""

    def _announce(self, topics: list[TopicConfig]) -> None:
        for listener in self.changed:
            listener(topics)


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def system_topic_configs(config: LiveConfig) -> list[TopicConfig]:
    """What every broker has from its first start, as Apache's makes it (docs/protocol.md#names)."""
    topics = [
        _topic(system_topics.SELF_TEST, 1),
        _topic(system_topics.BENCHMARK, 1024),
        _topic(config.identity.broker_cluster_name, 16, PERM_TEMPLATE),
        _topic(config.identity.broker_name, 1, PERM_TEMPLATE),
        _topic(system_topics.OFFSET_MOVED, 1),
        _topic(system_topics.SCHEDULE, len(config.delay.message_delay_level.split())),
        _topic(f"{config.identity.broker_cluster_name}_REPLY_TOPIC", 1),
        _topic(system_topics.REVIVE_PREFIX + config.identity.broker_cluster_name, config.pop.revive_queue_num),
        _topic(system_topics.HALF, 1),
        _topic(system_topics.OP, 1),
    ]
    if config.topics.auto_create_topic_enable:
        topics.insert(0, _topic(system_topics.AUTO_CREATE, config.topics.default_topic_queue_nums, PERM_TEMPLATE))
    if config.delay.timer_wheel_enable:
        topics.append(_topic(system_topics.TIMER, 1))
    if config.topics.trace_topic_enable:
        topics.append(_topic(config.topics.msg_trace_topic_name, 1))
    return topics


def _topic(name: str, queues: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, attributes={})


def apply_attributes(current: dict[str, str], text: str | None) -> dict[str, str]:
    """``"+key=value,-key"`` over the attributes a topic has. Raises ConfigError saying what is wrong with it."""
    attributes = dict(current)
    for part in (text or "").split(","):
        part = part.strip()
        if not part:
            continue
        sign, (name, equals, value) = part[0], part[1:].partition("=")
        if sign == "+" and name and equals and value:
            if name == MESSAGE_TYPE and value not in TOPIC_TYPES:
                raise ConfigError(f"message.type is {value!r}; write one of {', '.join(TOPIC_TYPES)}")
            attributes[name] = value
        elif sign == "-" and name and not equals:
            attributes.pop(name, None)
        else:
            raise ConfigError(f"attribute {part!r} is malformed; write +key=value to set one and -key to remove one")
    return attributes
