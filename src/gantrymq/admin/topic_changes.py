"""What a change of a topic would do, broker by broker, and the change itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.admin.topic_state import MESSAGE_TYPE, TopicState
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message import system_topics
from gantrymq.message.arguments import shown
from gantrymq.message.message_types import TOPIC_TYPES
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.files.topics import PERM_READ, PERM_WRITE, TopicConfig
from gantrymq.protocol.headers.topics import CreateTopic

"""What a topic may be made for; brokers refuse other messages. Source: TopicMessageType."""
QUEUES_NAMED: Final = 6
"""Of the queues that a sentence is about."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a topic; what is None stays as the broker has it, or as the caller says for one that is made."""

    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None
    order: bool | None = None
    message_type: str | None = None

    def check(self) -> None:
        """Raises ConfigError for what no topic can have."""
        if self.message_type is not None and self.message_type not in TOPIC_TYPES:
            raise ConfigError(f"unknown message type {shown(self.message_type)}; known: {', '.join(TOPIC_TYPES)}")
        for queues in (self.read_queues, self.write_queues):
            if queues is not None and queues < 1:
                raise ConfigError(f"a topic needs at least one queue, not {queues}")

    def over(self, topic: TopicConfig) -> TopicConfig:
        """``topic`` with these settings."""
        attributes = dict(topic.attributes or {})
        if self.message_type is not None:
            attributes[MESSAGE_TYPE] = self.message_type
        return msgspec.structs.replace(
            topic,
            read_queue_nums=topic.read_queue_nums if self.read_queues is None else self.read_queues,
            write_queue_nums=topic.write_queue_nums if self.write_queues is None else self.write_queues,
            perm=topic.perm if self.perm is None else self.perm,
            order=topic.order if self.order is None else self.order,
            attributes=attributes,
        )


class TopicChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a topic on one broker."""

    broker: str
    address: str
    before: TopicConfig | None
    """None: the broker has no such topic."""
    after: TopicConfig

    def differences(self) -> list[tuple[str, Any, Any]]:
        """Name, value now and value then of each setting that changes; empty when none does, or the topic is new."""
        if self.before is None:
            return []
        now, then = _settings(self.before), _settings(self.after)
        return [(name, now[name], then[name]) for name in now if now[name] != then[name]]

    def hides(self, queue_id: int) -> bool:
        """Whether what lies in a queue can be read now and cannot be read then."""
        return self.before is not None and _is_read(self.before, queue_id) and not _is_read(self.after, queue_id)

    def unread_queues(self) -> int:
        """Queues that are written to and read by nobody, after a change that makes more of them."""
        before = 0 if self.before is None else self.before.write_queue_nums - self.before.read_queue_nums
        after = self.after.write_queue_nums - self.after.read_queue_nums
        writable = self.after.perm & PERM_WRITE
        return after if writable and after > max(before, 0) else 0


class MessagesHidden(GantryError):
    """A change of a topic was not made, because consumers could not read messages any more."""

    what_to_do = "Wait until the groups have read them, or repeat the command with `--hide-messages`."


class TopicChanges:
    """Looks before it changes."""

    def __init__(self, asking: Asking, state: TopicState) -> None:
        self._asking = asking
        self._state = state

    async def plan(self, topic: str, wanted: Wanted, new: Wanted, cluster: str | None = None) -> list[TopicChange]:
        """What would become of ``topic`` on each master (of ``cluster``): ``wanted``, and ``new`` for settings that
        ``wanted`` leaves open where the topic is made. Raises MessageIllegal or ConfigError."""
        system_topics.check_topic(topic)
        wanted.check()
        masters = await self._asking.masters(cluster)
        changes = []
        for broker, address in masters.items():
            before = await self._state.on_broker(topic, address)
            base = before if before is not None else new.over(TopicConfig(topic_name=topic))
            changes.append(TopicChange(broker=broker, address=address, before=before, after=wanted.over(base)))
        return changes

    async def hidden(self, topic: str, changes: Sequence[TopicChange]) -> dict[MessageQueue, int]:
        """Messages in each queue that could not be read any more, by queue; queues without messages are left out."""
        found: dict[MessageQueue, int] = {}
        for change in changes:
            if change.differences():
                queues = (await self._state.stats(topic, change.address)).by_queue()
                found |= {
                    queue: at.max_offset - at.min_offset
                    for queue, at in sorted(queues.items())
                    if change.hides(queue.queue_id) and at.max_offset > at.min_offset
                }
        return found

    async def check_readable(self, topic: str, changes: Sequence[TopicChange]) -> None:
        """Raises MessagesHidden when these changes take messages from consumers."""
        reason = why_refused(topic, changes, await self.hidden(topic, changes))
        if reason:
            raise MessagesHidden(f"{reason}; or say hide_messages=True (`gantry topic create --hide-messages`)")

    async def apply(self, topic: str, changes: Sequence[TopicChange]) -> None:
        """Make the changes; each raises RequestRejected or Unreachable, and those before it are made."""
        for change in changes:
            what = f"{'creation' if change.before is None else 'change'} of topic {topic!r}"
            await self._asking.ask(change.address, RequestCode.UPDATE_AND_CREATE_TOPIC, _header(change), what=what)


def why_refused(topic: str, changes: Sequence[TopicChange], hidden: dict[MessageQueue, int]) -> str | None:
    """A sentence with the safe way, when a change should not be made without an explicit word."""
    if hidden:
        names = [f"{queue.broker_name}:{queue.queue_id}" for queue in hidden]
        shown = ", ".join(names[:QUEUES_NAMED]) + (", ..." if len(names) > QUEUES_NAMED else "")
        return (
            f"this would hide {sum(hidden.values())} message(s) in {len(hidden)} queue(s) of topic {topic!r} ({shown}) "
            "from every group that has not read them. The safe way: lower its write queues (writeQueueNums) first, let "
            "its groups read what is there, and lower its read queues (readQueueNums) then"
        )
    for change in changes:
        if change.unread_queues():
            return (
                f"topic {topic!r} would have {change.after.write_queue_nums} write queues and "
                f"{change.after.read_queue_nums} read queues on {change.broker}: nobody would read what is sent to the "
                "others. Make the read queues as many first"
            )
    return None


def _is_read(topic: TopicConfig, queue_id: int) -> bool:
    return bool(topic.perm & PERM_READ) and queue_id < topic.read_queue_nums


def _settings(topic: TopicConfig) -> dict[str, Any]:
    """By the names that RocketMQ's tools use."""
    return {
        "readQueueNums": topic.read_queue_nums,
        "writeQueueNums": topic.write_queue_nums,
        "perm": topic.perm,
        "order": topic.order,
        MESSAGE_TYPE: (topic.attributes or {}).get(MESSAGE_TYPE),
    }


def _header(change: TopicChange) -> CreateTopic:
    """Attributes are sent as changes; only the message type is ever changed here."""
    topic = change.after
    message_type = (topic.attributes or {}).get(MESSAGE_TYPE)
    known = None if change.before is None else (change.before.attributes or {}).get(MESSAGE_TYPE)
    return CreateTopic(
        topic=topic.topic_name,
        default_topic=system_topics.AUTO_CREATE,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        topic_filter_type=topic.topic_filter_type,
        topic_sys_flag=topic.topic_sys_flag,
        order=topic.order,
        attributes=f"+{MESSAGE_TYPE}={message_type}" if message_type and message_type != known else None,
    )
