"""A message as a producer writes it, and as a consumer gets it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from gantrymq.errors import MessageIllegal
from gantrymq.message import flags, properties
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset


@dataclass(slots=True, init=False)
class Message:
    """What a producer sends.

    ``topic``: where to. ``body``: 1 byte to 4 MiB. ``tags``: one tag that consumers can filter by. ``keys``: words to
    find the message by. ``properties``: user properties, text to text; reserved names are refused. ``flag``: a 32-bit
    number that is carried along. ``delay_level``: 1..18, when to deliver it (see the broker's ``messageDelayLevel``).
    ``delay_ms``, ``deliver_at_ms``: the same to the second, from when it is sent or as ms since 1970 (brokers 5.x).

    Raises MessageIllegal for a reserved property name, or for several times of delivery. Names and sizes are checked
    when it is sent.
    """

    topic: str
    body: bytes
    flag: int
    properties: dict[str, str]
    """All properties, reserved ones included, as they go on the wire."""

    def __init__(
        self,
        topic: str,
        body: bytes | str,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        delay_level: int = 0,
        wait: bool = True,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
    ) -> None:
        self.topic = topic
        self.body = body if body.__class__ is bytes else body.encode() if isinstance(body, str) else bytes(body)
        self.flag = flag
        self.properties = {}
        if properties:
            for name, value in properties.items():
                self.put_user_property(name, value)
        if tags:
            self.properties["TAGS"] = tags
        if keys:
            self.properties["KEYS"] = keys if isinstance(keys, str) else " ".join(str(key) for key in keys)
        if delay_level:
            self.properties["DELAY"] = str(delay_level)
        if not wait:
            self.properties["WAIT"] = "false"
        if delay_ms or deliver_at_ms:
            self._deliver(delay_level, delay_ms, deliver_at_ms)

    def _deliver(self, delay_level: int, delay_ms: int, deliver_at_ms: int) -> None:
        if bool(delay_level) + bool(delay_ms) + bool(deliver_at_ms) > 1:
            raise MessageIllegal("a message is delivered once: give one of delay_level, delay_ms and deliver_at_ms")
        if delay_ms < 0 or deliver_at_ms < 0:
            raise MessageIllegal("a time of delivery is a positive number of milliseconds")
        if delay_ms:
            self.properties[properties.TIMER_DELAY_MS] = str(delay_ms)
        else:
            self.properties[properties.TIMER_DELIVER_MS] = str(deliver_at_ms)

    def put_user_property(self, name: str, value: str) -> None:
        """Set a user property; raises MessageIllegal when the name is reserved or either part is empty."""
        if name in properties.RESERVED:
            raise MessageIllegal(f"the property name {name!r} is reserved by RocketMQ; choose another one")
        if not name or not value:
            raise MessageIllegal("a user property needs a name and a value; RocketMQ drops empty ones")
        self.properties[name] = str(value)

    def with_properties(self, values: dict[str, str]) -> Message:
        """This message with all its properties replaced by ``values``, which becomes the copy's own."""
        if type(self) is not Message:
            made = copy.copy(self)
            made.properties = values
            return made
        made = Message.__new__(Message)  # copy.copy costs ten times as much
        made.topic, made.body, made.flag, made.properties = self.topic, self.body, self.flag, values
        return made

    @property
    def tags(self) -> str | None:
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> list[str]:
        return self.properties.get(properties.KEYS, "").split()

    @property
    def delay_level(self) -> int:
        return int(self.properties.get(properties.DELAY, "0") or 0)

    @property
    def unique_key(self) -> str | None:
        """The client's message id (UNIQ_KEY). A message that was sent does not get one by that: the id that it was
        sent under is in the result."""
        return self.properties.get(properties.UNIQ_KEY)

    @property
    def transaction_id(self) -> str | None:
        """Of the message that ``execute_local_transaction`` is given: the id of its transaction."""
        return self.properties.get(properties.TRANSACTION_ID) or self.unique_key


class StoredMessage(msgspec.Struct, frozen=True):
    """A message as the log holds it. Source: MessageExt; transactions-and-store.md B1."""

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
    """UNIQ_KEY when there is one, else the offset message id."""
    offset_message_id: str
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    log_offset: LogOffset
    sys_flag: int = 0

    @property
    def tags(self) -> str | None:
        return self.properties.get(properties.TAGS)

    @property
    def keys(self) -> list[str]:
        return self.properties.get(properties.KEYS, "").split()

    @property
    def transaction_id(self) -> str | None:
        return self.properties.get(properties.TRANSACTION_ID) or self.properties.get(properties.UNIQ_KEY)

    @property
    def compressed_when_stored(self) -> bool:
        return bool(self.sys_flag & flags.COMPRESSED)
