"""Queues as arguments of calls of the pull consumers: checked before anything is sent or changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gantrymq.client.settings_rules import POSITION, read_setting
from gantrymq.errors import ConfigError
from gantrymq.message.arguments import shown
from gantrymq.message.queues import MessageQueue


def checked_queue(queue: MessageQueue) -> MessageQueue:
    """The queue. Raises ConfigError for anything else, such as the name of a topic."""
    if not isinstance(queue, MessageQueue):
        raise ConfigError(f"queue must be a MessageQueue, as queues(topic) lists them, not {shown(queue)}")
    return queue


def checked_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """The queues, each once. Raises ConfigError for anything that is no collection of queues."""
    if isinstance(queues, MessageQueue | str) or not isinstance(queues, Iterable):
        raise ConfigError(f"queues must be a list of MessageQueue, as queues(topic) returns it, not {shown(queues)}")
    return list(dict.fromkeys(map(checked_queue, queues)))


def check_offsets(offsets: Mapping[MessageQueue, int] | None) -> None:
    """Raise ConfigError unless these are offsets by queue, or None."""
    if offsets is None:
        return
    if not isinstance(offsets, Mapping):
        raise ConfigError(f"offsets must be a dict of offsets by MessageQueue, not {shown(offsets)}")
    for queue, offset in offsets.items():
        checked_queue(queue)
        read_setting("offset", offset, POSITION)
