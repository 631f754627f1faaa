"""A message on its way into a broker, as its sender gives it beside the body, whatever protocol it speaks."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from gantrymq.message import system_topics

QUEUES_OF_NEW_TOPICS: Final = 4


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """One value for all doors. The header of a remoting request is one, too, so that nothing is copied there."""

    producer_group: str
    topic: str
    default_topic: str = system_topics.AUTO_CREATE
    """The topic whose settings a topic gets that does not exist yet."""
    default_topic_queue_nums: int = QUEUES_OF_NEW_TOPICS
    queue_id: int = -1
    """Negative: the broker chooses a queue."""
    sys_flag: int = 0
    born_timestamp: int
    """Milliseconds since 1970 by the sender's clock."""
    flag: int = 0
    properties: str | None = None
    """The text of the properties, as ``message.properties`` writes it."""
    reconsume_times: int | None = None
    """How often the message was delivered and not consumed."""
    unit_mode: bool | None = None
    """Of a reply: handed to the requester as it is."""
    max_reconsume_times: int | None = None
    """Only of messages for a retry topic: how often it may be."""


class BatchItem(NamedTuple):
    """One message of a batch. Its topic, queue, born time and born host are those of the batch."""

    flag: int
    body: bytes
    properties_text: str
