"""The checks that every send must pass, in Apache's order (docs/protocol.md#sending).

Facts that depend on the topic alone are found once for each topic and remembered until the topics change, because this
is the hot path of a broker. Source: AbstractSendMessageProcessor.msgCheck; docs/protocol.md#sending.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NoReturn

from gantrymq.broker.announcement import Announce
from gantrymq.broker.durability import Done, refusal
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.message_types import accepted
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.topics import TooMany, Topics
from gantrymq.broker.submission import Submission
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import flags, properties, system_topics
from gantrymq.message.message_types import TYPE_LITE
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES
from gantrymq.protocol.files.topics import PERM_WRITE, TopicConfig
from gantrymq.runtime.rng import Rng
from gantrymq.store.room import Room, Use

SENDER_FLAGS: Final = ~(flags.TRANSACTION_MASK | flags.NEED_UNWRAP | flags.INNER_BATCH)
"""What a sender may say in the system flag. The transaction type of a record is the broker's to say: a forged
"committed" record would be taken for the end of a transaction after a crash."""

FITS_ANYWAY: Final = 7_500
"""Characters of a properties text that are within every limit of bytes, whatever characters they are."""
_UTF8_MAX_BYTES: Final = 4
"""Of one character."""
_UNIQ_KEY_ITEM: Final = f"{properties.UNIQ_KEY}\x01"
_UNIQ_KEY_BEHIND: Final = "\x02" + _UNIQ_KEY_ITEM
_TOO_LONG: Final = "the message is illegal, maybe msg body or properties length not matched."
"""Apache's words, which people and programs look for, before our own."""
_WAIT_FALSE: Final = f"{properties.WAIT}\x01false"


@dataclass(frozen=True, slots=True)
class Target:
    """What sends to one topic need to know of it."""

    queues: int
    """Queue ids below this are accepted: the larger one of read and write queues."""
    write_queues: int
    kinds: frozenset[int] | None
    """The kinds of messages (``message.message_types``) that the topic accepts by its type; None: all."""
    is_retry: bool
    takes_lite: bool = False
    """Whether it has lite topics."""
    made_topic: bool = False
    """Whether the send that was let in made the topic, so that its answer waits until the name servers know it."""


class Admission:
    """The checks of sends; each raises Refused."""

    def __init__(self, config: LiveConfig, topics: Topics, rng: Rng, announce: Announce, room: Room) -> None:
        self._config = config
        self._room = room
        self._topics = topics
        self._rng = rng
        self._announce = announce
        self._targets: dict[str, Target] = {}
        topics.changed.append(lambda _: self._targets.clear())
        config.changed.append(self._targets.clear)

    def admit(self, message: Submission, body_bytes: int) -> tuple[Target, int]:
        """The topic a message is for and the queue that is written to, after all checks of this module but that of the
        properties."""
        if self._room.tight:
            self._check_room()
        target = self._targets.get(message.topic) or self._admit(message)
        self.check_body(body_bytes)
        queue_id = message.queue_id
        return target, queue_id if 0 <= queue_id < target.queues else self.queue(queue_id, target, message.topic)

    def target(self, message: Submission) -> Target:
        """The topic a message is for; it is made when that is allowed."""
        if self._room.tight:
            self._check_room()
        return self._targets.get(message.topic) or self._admit(message)

    def _check_room(self) -> None:
        """Refuse what is new while the disk is nearly full: the rest of it is for what ends what is there."""
        try:
            self._room.check(Use.MESSAGE)
        except StoreError as error:
            raise refusal(error) from error

    def _admit(self, message: Submission) -> Target:
        topic = message.topic
        try:
            system_topics.check_topic(topic)
        except MessageIllegal as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        if topic in system_topics.NOT_SENDABLE or topic.startswith(system_topics.REVIVE_PREFIX):
            raise Refused(Refusal.NOT_PERMITTED, f"Sending message to topic[{topic}] is forbidden.")
        config = self._topics.get(topic)
        is_retry = topic.startswith(system_topics.RETRY_PREFIX)
        made_topic = config is None and not is_retry
        if config is None:
            config = self._make(message, is_retry)
        if config is None:
            raise Refused(
                Refusal.TOPIC_UNKNOWN,
                f"topic[{topic}] not exist, apply first please! (gantry topic create, or autoCreateTopicEnable=true)",
            )
        if config.order and not self._config.identity.broker_permission & PERM_WRITE:
            raise Refused(
                Refusal.NOT_PERMITTED, f"the broker[{self._config.network.broker_ip1}] sending message is forbidden"
            )
        target = self._targets[topic] = Target(
            max(config.read_queue_nums, config.write_queue_nums),
            config.write_queue_nums,
            accepted(
                config.message_type or None,
                topic,
                checked=self._config.topics.enable_topic_message_type_check,
            ),
            is_retry,
            config.message_type == TYPE_LITE,
        )
        return replace(target, made_topic=True) if made_topic else target

    def _make(self, message: Submission, is_retry: bool) -> TopicConfig | None:
        try:
            if is_retry:
                return self._topics.ensure(message.topic, 1)
            return self._topics.create_for_send(message.topic, message.default_topic, message.default_topic_queue_nums)
        except StoreError as error:
            raise refusal(error) from error
        except TooMany as error:
            raise Refused(Refusal.NOT_PERMITTED, str(error)) from error

    def when_known(self, done: Done) -> Done:
        """Delay ``done`` until the name servers know a new topic: a client whose first message to a topic was stored
        may ask them for its queues at once.
        """
        return lambda error: self._announce(partial(done, error))

    def queue(self, queue_id: int, target: Target, topic: str) -> int:
        """The queue that is written to: the one asked for, or any when the sender leaves it open."""
        if 0 <= queue_id < target.queues:
            return queue_id
        if queue_id < 0 < target.write_queues:
            return self._rng.below(target.write_queues)
        raise Refused(
            Refusal.PARAMETER_INVALID,
            f"request queueId[{queue_id}] is illegal, topic[{topic}] has {target.queues} queues; refresh the route",
        )

    def check_body(self, size: int) -> None:
        if not 0 < size <= self._config.topics.max_message_size:
            self._refuse_body(size)

    def _refuse_body(self, size: int) -> NoReturn:
        if size == 0:
            raise Refused(Refusal.MESSAGE_ILLEGAL, "the body is empty; send at least one byte")
        limit = self._config.topics.max_message_size
        raise Refused(
            Refusal.MESSAGE_ILLEGAL,
            f"{_TOO_LONG} msg body length limit {limit}B, msg properties length limit 32KB. "
            f"This body has {size} bytes; the limit is maxMessageSize",
        )


def check_properties(text: str, headroom: int = 0) -> None:
    """Raise Refused when the properties with all additions leave less than ``headroom`` bytes."""
    limit = MAX_PROPERTIES_BYTES - headroom
    if len(text) * _UTF8_MAX_BYTES <= limit:
        return
    size = len(text.encode())
    if size > limit:
        raise Refused(
            Refusal.MESSAGE_ILLEGAL,
            f"{_TOO_LONG} msg properties length limit 32KB. "
            f"These properties have {size} bytes with what the broker adds; at most {limit} fit. "
            "Shorten them or move data into the body",
        )


def waits(text: str) -> bool:
    """Whether the sender wants its answer only when the message is durable (WAIT is not ``false``)."""
    return _WAIT_FALSE not in text or properties.find(text, properties.WAIT) != "false"


def unique_key_of(text: str) -> str:
    """UNIQ_KEY in a properties text; empty when there is none. Of a repeated one the last counts."""
    start = text.rfind(_UNIQ_KEY_BEHIND) + 1
    if start == 0 and not text.startswith(_UNIQ_KEY_ITEM):
        return ""
    start += len(_UNIQ_KEY_ITEM)
    end = text.find("\x02", start)
    return text[start:] if end < 0 else text[start:end]


def with_unique_key(text: str, unique_key: str) -> str:
    """``text``, which ends with a separator or is empty, with a UNIQ_KEY."""
    return f"{text}{_UNIQ_KEY_ITEM}{unique_key}\x02"


def separated(text: str | None) -> str:
    """``text`` ready for additions: with the separator that clients 4.9.1 to 5.1 leave out at its end."""
    if not text:
        return ""
    return text if text[-1] == "\x02" else text + "\x02"


def is_set(text: str, name: str) -> bool:
    """Whether a delay property asks for a delay."""
    return name in text and (properties.find(text, name) or "0") != "0"


def stamp_of(config: LiveConfig) -> str:
    """The properties that this broker adds to every message."""
    return properties.encode(
        {
            properties.REGION: config.identity.region_id,
            properties.TRACE_ON: "true" if config.identity.trace_on else "false",
            properties.CLUSTER: config.identity.broker_cluster_name,
        }
    )
