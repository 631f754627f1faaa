"""A message as a producer writes it, and as a consumer gets it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gantrymq.errors import MessageIllegal
from gantrymq.message import flags, parts, properties
from gantrymq.message.arguments import shown
from gantrymq.message.lite_topics import check_lite_topic
from gantrymq.message.parts import MAX_FLAG, MIN_FLAG
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset

_AT_ONCE: Final = 0


@dataclass(slots=True, init=False)
class Message:
    """What a producer sends.

    ``topic``: the topic to send to. ``body``: 1 byte to 4 MiB; a bytearray is copied, because it can change later.
    ``tags``: one tag by which consumers can filter. ``keys``: words by which the message can be found.
    ``properties``: user properties, text to text; reserved names are refused. Numbers in keys and properties are
    converted to text. ``flag``: a 32-bit number for the program's own use. ``delay_level``: deliver the message after
    the delay of this level, 1..18 (see the broker's ``messageDelayLevel``). ``delay_ms``, ``deliver_at_ms``: deliver it
    this long after the send, or at this time in ms since 1970, with a precision of a second (brokers 5.x).
    ``priority``: 0 or more. Of a topic of type PRIORITY, pops get messages with a higher one first (brokers 5.4).

    ``lite_topic``: the lite topic below ``topic``, which has the type LITE (brokers 5.5).

    Sending a message never changes it, and every send has a new id, which is in its result. ``unique_key``: an id that
    every send of this message uses instead, so that a consumer can recognise a repeated send. (A transaction has an id
    of its own in any case.)

    Raises MessageIllegal, which names the argument, for a value of a wrong type or out of range, for a reserved
    property name, for more than one time of delivery, and for a priority of a delayed message. Names and sizes are
    checked when the message is sent.
    """

    topic: str
    body: bytes
    flag: int
    properties: dict[str, str]
    """All properties, including the reserved ones, as they are sent."""

    def __init__(
        self,
        topic: str,
        body: bytes | str,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = _AT_ONCE,
        wait: bool = True,
        delay_ms: int = _AT_ONCE,
        deliver_at_ms: int = _AT_ONCE,
        unique_key: str | None = None,
        priority: int | None = None,
        lite_topic: str | None = None,
    ) -> None:
        self.topic = topic if topic.__class__ is str else parts.text_of("topic", topic)
        self.body = body if body.__class__ is bytes else parts.body_of(body)
        self.flag = flag if flag.__class__ is int and flag == 0 else parts.number_of("flag", flag, MIN_FLAG, MAX_FLAG)
        self.properties = {}
        if properties is not None:
            self._take(properties)
        if tags is not None and parts.text_of("tags", tags):
            self.properties["TAGS"] = tags
        if keys is not None and (words := parts.keys_of(keys)):
            self.properties["KEYS"] = words
        if not (delay_level is delay_ms is deliver_at_ms is _AT_ONCE):
            self.properties.update(parts.times_of(delay_level, delay_ms, deliver_at_ms))
        if priority is not None:
            self._rank(priority)
        if lite_topic is not None:
            self._direct(lite_topic)
        if wait is not True:
            self._wait(wait)
        if unique_key is not None:
            self.properties["UNIQ_KEY"] = parts.id_of("unique_key", unique_key)

    def _take(self, values: Mapping[str, str]) -> None:
        if values.__class__ is not dict and not isinstance(values, Mapping):
            raise MessageIllegal(f"properties must be a mapping from texts to texts, not {shown(values)}")
        for name, value in values.items():
            self.put_user_property(name, value)

    def _wait(self, wait: bool) -> None:
        if wait is not False:
            raise MessageIllegal(f"wait must be True or False, not {shown(wait)}")
        self.properties["WAIT"] = "false"

    def _rank(self, priority: int) -> None:
        if not properties.DELAYS.isdisjoint(self.properties):
            raise MessageIllegal("a delayed message cannot have a priority: brokers drop it. Give one of both")
        self.properties[properties.PRIORITY] = parts.priority_of(priority)

    def _direct(self, lite_topic: str) -> None:
        check_lite_topic(lite_topic)
        if properties.PRIORITY in self.properties or not properties.DELAYS.isdisjoint(self.properties):
            raise MessageIllegal("a message to a lite topic cannot be delayed, and cannot have a priority")
        self.properties[properties.LITE_TOPIC] = lite_topic

    def put_user_property(self, name: str, value: str) -> None:
        """Set a user property; raises MessageIllegal when the name is reserved or either part is empty."""
        if name.__class__ is not str or not name.isascii():
            parts.text_of("the name of a property", name)
        if value.__class__ is not str or not value.isascii():
            value = parts.word_of(f"the property {shown(name)}", value)
        if name in properties.RESERVED:
            raise MessageIllegal(f"the property name {name!r} is reserved by RocketMQ; choose another one")
        if not name or not value:
            raise MessageIllegal("a user property needs a name and a value; RocketMQ drops empty ones")
        self.properties[name] = value

    def with_properties(self, values: dict[str, str]) -> Message:
        """A copy of this message with ``values`` as its properties. The dict itself is used and not copied."""
        if type(self) is not Message:
            made = copy.copy(self)
            made.properties = values
            return made
        made = Message.__new__(Message)  # copy.copy costs ten times as much
        made.topic, made.body, made.flag, made.properties = self.topic, self.body, self.flag, values
        return made

    @property
    def tags(self) -> str | None:
        """The tag by which consumers select messages (``A || B``), or None."""
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys under which the message is found, such as an order number."""
        return self.properties.get(properties.KEYS, "").split()

    @property
    def delay_level(self) -> int:
        """The level of RocketMQ's ``messageDelayLevel`` by which it is delivered later; 0: at once."""
        return int(self.properties.get(properties.DELAY, "0") or 0)

    @property
    def priority(self) -> int | None:
        """The priority among the messages of a topic of type PRIORITY, or None."""
        return parts.priority_in(self.properties.get(properties.PRIORITY))

    @property
    def lite_topic(self) -> str | None:
        """The lite topic below the topic, or None."""
        return self.properties.get(properties.LITE_TOPIC)

    @property
    def unique_key(self) -> str | None:
        """The id that the program chose for the message, if any. The id that a send used is in its result."""
        return self.properties.get(properties.UNIQ_KEY)

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction, in the message that is passed to ``execute_local_transaction``."""
        return self.properties.get(properties.TRANSACTION_ID) or self.unique_key


class StoredMessage(msgspec.Struct, frozen=True):
    """A message as the commit log stores it. Source: MessageExt; docs/store.md#records."""

    topic: str
    queue_id: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    size: int
    """Bytes of the whole record."""
    flag: int
    sys_flag: int
    born_timestamp: int
    """Milliseconds since 1970 by the producer's clock."""
    born_host: str
    store_timestamp: int
    """Milliseconds since 1970 by the broker's clock."""
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: LogOffset
    body_crc: int
    body: bytes
    """As stored: compressed when ``sys_flag`` says so."""
    properties_text: str


class MessageView(msgspec.Struct):
    """What a consumer or a check-back gets: a stored message, decompressed, with its properties decoded."""

    topic: str
    body: bytes
    properties: dict[str, str]
    flag: int
    queue: MessageQueue
    queue_offset: QueueOffset
    message_id: str
    """The UNIQ_KEY if there is one, otherwise the offset message id."""
    offset_message_id: str
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    log_offset: LogOffset
    sys_flag: int = 0
    body_cut: bool = False
    """Whether ``body`` is only the beginning: tools that show messages read no more than they show."""

    @property
    def tags(self) -> str | None:
        """The tag by which consumers select messages (``A || B``), or None."""
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> list[str]:
        """The keys under which the message is found, such as an order number."""
        return self.properties.get(properties.KEYS, "").split()

    @property
    def priority(self) -> int | None:
        """The priority among the messages of a topic of type PRIORITY, or None."""
        return parts.priority_in(self.properties.get(properties.PRIORITY))

    @property
    def lite_topic(self) -> str | None:
        """The lite topic below the topic, or None."""
        return self.properties.get(properties.LITE_TOPIC)

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction that the message belongs to; of a plain message its unique key."""
        return self.properties.get(properties.TRANSACTION_ID) or self.properties.get(properties.UNIQ_KEY)

    @property
    def compressed_when_stored(self) -> bool:
        """Whether the producer had compressed the body; ``body`` is decompressed already."""
        return bool(self.sys_flag & flags.COMPRESSED)
