"""All topics, groups and clients of one broker at a glance: a row for each, so that a tool needs one question to a
broker and not one for each topic. Only GantryMQ's brokers answer these questions.
"""

from __future__ import annotations

import msgspec


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One topic on one broker."""

    topic: str
    queues: int
    """Those that are read or written, whichever are more."""
    messages: int
    """That can still be read."""
    put_tps: float
    """Messages a second that the topic got over the last minute."""
    got_tps: float
    """Messages a second that all groups together got of it."""
    groups: int
    """Groups with a position in it."""
    lag: int | None
    """Messages that the group which is furthest behind has not consumed; None: no group has a position in it."""
    furthest: str
    """This group; empty when no group is behind."""
    message_type: str
    """Which messages it takes; empty: any."""
    perm: int
    """4 read, 2 write."""
    system: bool
    """Whether every broker has such a topic, or a broker makes it for itself."""


class TopicGroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is in one topic."""

    topic: str
    lag: int
    behind_ms: int
    """Age of the oldest message that it has not consumed; 0 when there is none."""
    tps: float
    """Messages a second that it gets."""


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One consumer group on one broker. A group that is known and has read nothing has no topics."""

    group: str
    topics: list[TopicGroupLag]
    members: list[str]
    """Client ids of those who are online."""
    model: str
    """``CLUSTERING`` or ``BROADCASTING``; empty: nobody is online."""
    conflicts: list[str]
    """Topics of which members select different messages."""


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """A client in one group. One that is in several groups has several rows."""

    kind: str
    """``producer`` or ``consumer``."""
    group: str
    client_id: str
    address: str
    language: str
    version: int
    """The number of the RocketMQ version that the client says it is like."""
    protocol: str
    """``remoting``, ``grpc``, or ``in process``."""
    heard_ms: int
    """ms since its last heartbeat."""


class Summaries(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: of what was asked for; the other lists are empty."""

    topics: list[TopicSummary] = []
    groups: list[GroupSummary] = []
    clients: list[ClientRow] = []
