"""Which messages a client may be given, where the broker has users.

Most topics of the system hold messages of several topics: halves, delayed ones, retries, dead letters, traces. A right
on such a topic is not a right on these messages. So each of them is judged by the topic that its sender meant, whatever
request leads to it and whatever door that comes through. Operations ask here; a broker without users has no such
object.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

from gantrymq.access.judge import SHARED
from gantrymq.access.values import Action, Need, User, send_need, topic_need
from gantrymq.broker.client import Reader
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.topics import Topics
from gantrymq.message import flags, properties, system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import Holds, holds
from gantrymq.protocol import trace_records
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.addresses import host_of
from gantrymq.store.values import GetResult, GetStatus

_READ: Final = (Action.SUB, Action.GET)
_DECIDE: Final = (Action.SUB, Action.GET, Action.UPDATE)
"""Who may decide about an undecided message may see it."""
_KNOW: Final = (Action.PUB, Action.SUB, Action.GET, Action.UPDATE)
_LEFT_OUT: Final = SHARED
"""Where a message that a reader may not see is left out, as by a selector. In retry topics and dead letters a consumer
group would lose it that way, so there the read is refused."""
_TRACE_MAX_BYTES: Final = 1 << 20
"""So much of the body of a trace message is looked at; clients send 128 KB at once."""
_SPLITS: Final = "_+"
"""What stands between group and topic in the retry topics of POP; see ``system_topics.normal_topic``."""


class Judge(Protocol):
    """What decides what users may do; ``access.guard`` is one."""

    def is_open_to(self, source: str) -> bool:
        """Whether everything is served to this IP address."""

    def allows(self, user: User | None, need: Need, source: str) -> bool:
        """Whether a user may; None is allowed nothing."""


class MessageRights:
    """Judges messages by their users' topics. ``trace_topic``: the name of the broker's trace topic."""

    def __init__(self, guard: Judge, topics: Topics, trace_topic: str) -> None:
        self._guard = guard
        self._topics = topics
        self._trace_topic = trace_topic

    # Whose a message is.

    def holds(self, topic: str) -> Holds | None:
        return Holds.TRACES if topic == self._trace_topic else holds(topic)

    def owners(self, message: StoredMessage, group: str = "") -> tuple[str, ...]:
        """The topics whose readers may read ``message``; none: the topic in which it lies says enough. ``group``: the
        consumer group that reads, where one does.
        """
        return tuple(dict.fromkeys(self._owners(message.topic, message, group)))

    def _owners(self, topic: str, message: StoredMessage, group: str) -> Iterator[str]:
        kind = self.holds(topic)
        if kind is None:
            yield topic
        elif kind is Holds.WAITING:
            meant = properties.find(message.properties_text, properties.REAL_TOPIC)
            if meant and self.holds(meant) is not Holds.WAITING:
                yield from self._owners(meant, message, group)
        elif kind is Holds.FAILED:
            meant = properties.find(message.properties_text, properties.RETRY_TOPIC)
            yield from self._of_failed(topic, meant, group)
        elif kind is Holds.TRACES:
            yield from _traced(message)

    def _of_failed(self, topic: str, meant: str | None, group: str) -> Iterator[str]:
        """What POP revives bears its topic only in the name of the retry topic, where nothing says where it begins."""
        if meant:
            if self.holds(meant) is not Holds.FAILED:
                yield meant
            return
        normal = system_topics.normal_topic(topic, group)
        if normal != topic:
            yield normal
        elif topic.startswith(system_topics.RETRY_PREFIX):
            for at, character in enumerate(topic):
                if character in _SPLITS and self._topics.exists(topic[at + 1 :]):
                    yield topic[at + 1 :]

    # What a client may.

    def may_read(self, client: Reader, topic: str) -> bool:
        """Whether its user may read the messages of a topic."""
        return self._allows(client, topic_need(topic, _READ))

    def may_be_asked(self, client: Reader, topic: str) -> bool:
        """Whether it may get undecided messages of a topic with a check-back."""
        return self._allows(client, send_need(topic))

    def may_know(self, client: Reader, topic: str) -> bool:
        """Whether it may hear which transactions a topic has; they are told without bodies."""
        return self._allows(client, topic_need(topic, _KNOW))

    def _allows(self, client: Reader, need: Need) -> bool:
        source = host_of(client.address)
        return self._guard.is_open_to(source) or self._guard.allows(client.user, need, source)

    def missing(self, client: Reader, message: StoredMessage, group: str = "") -> str | None:
        """What ``client`` lacks to be given ``message``, as a sentence; None: nothing."""
        undecided = message.topic in system_topics.TRANSACTION_TOPICS
        for owner in self.owners(message, group):
            need = topic_need(owner, _DECIDE if undecided else _READ)
            if not self._allows(client, need):
                who = "a client that has not signed" if client.user is None else f"the user {client.user.name}"
                return (
                    f"{who} needs {need.text} for the message at offset {message.queue_offset} of queue "
                    f"{message.queue_id} of {message.topic}, which belongs to that topic"
                )
        return None

    def demand(self, client: Reader, message: StoredMessage, group: str = "") -> None:
        """Raises Refused unless ``client`` may be given ``message``, wherever it lies."""
        if self.holds(message.topic) is not None:
            missing = self.missing(client, message, group)
            if missing is not None:
                raise Refused(Refusal.NOT_PERMITTED, missing)

    def demand_poppable(self, topic: str) -> None:
        """Raises Refused for a topic of the system whose messages no group consumes."""
        if self.holds(topic) in _LEFT_OUT:
            raise Refused(Refusal.NOT_PERMITTED, f"the topic[{topic}] holds messages of several topics; pull them")

    def demand_all(self, client: Reader, topic: str, records: bytes, group: str) -> None:
        """Raises Refused unless ``client`` may be given every message in ``records``, which lie in ``topic``."""
        if self.holds(topic) is not None:
            for message in scan(records):
                self.demand(client, message, group)

    def shown(self, client: Reader, topic: str, found: GetResult, group: str) -> GetResult:
        """``found`` with what ``client`` may be given; see ``_LEFT_OUT``. Raises Refused for the first message of a
        retry topic or a dead letter that it may not be given; those before it come first.
        """
        kind = self.holds(topic)
        if kind is None or not found.count:
            return found
        shown: list[bytes] = []
        at = 0
        for message in scan(found.data):
            missing = self.missing(client, message, group)
            if missing is None:
                shown.append(found.data[at : at + message.size])
            elif kind not in _LEFT_OUT and not shown:
                raise Refused(Refusal.NOT_PERMITTED, missing)
            elif kind not in _LEFT_OUT:
                return dataclasses.replace(
                    found, data=b"".join(shown), count=len(shown), next_offset=message.queue_offset
                )
            at += message.size
        if not shown:
            return dataclasses.replace(found, status=GetStatus.NO_MATCHED_MESSAGE, data=b"", count=0)
        return dataclasses.replace(found, data=b"".join(shown), count=len(shown))


def told_to(rights: MessageRights | None, reader: Reader) -> Callable[[str], bool]:
    """Whether a reader may hear of the transactions of a topic; without users everybody may."""
    return all_of_them if rights is None else partial(rights.may_know, reader)


def none_of_them(topic: str) -> bool:
    """For those whose rights nobody has asked about."""
    return False


def all_of_them(topic: str) -> bool:
    """For readers who may hear of every topic."""
    return True


def _traced(message: StoredMessage) -> Iterator[str]:
    """The topics in a trace message. One that cannot be read, or is compressed otherwise than by zlib, names none."""
    body = message.body
    if message.sys_flag & flags.COMPRESSED:
        try:
            body = zlib.decompressobj().decompress(body, _TRACE_MAX_BYTES)
        except zlib.error:
            return
    for record in trace_records.decode(body)[0]:
        if record.topic:
            yield record.topic
