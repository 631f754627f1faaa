"""The names of system topics, derived topics and system groups, and the rules for names. Source: TopicValidator,
MixAll.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from gantrymq.errors import MessageIllegal
from gantrymq.message.arguments import shown
from gantrymq.message.sizes import MAX_TOPIC_CHARACTERS

HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
PARKED: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""The topic of half messages that stayed undecided: they are parked here after the last check or at the age limit."""
SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
TIMER: Final = "rmq_sys_wheel_timer"
TRACE: Final = "RMQ_SYS_TRACE_TOPIC"
AUTO_CREATE: Final = "TBW102"
"""The template of topics that their first message creates."""
SELF_TEST: Final = "SELF_TEST_TOPIC"
BENCHMARK: Final = "BenchmarkTest"
OFFSET_MOVED: Final = "OFFSET_MOVED_EVENT"

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
"""Followed by the name of the cluster: the topic with the check points and acknowledgements of popped messages. Only
brokers write to it."""

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
"""Preceded by the name of the cluster: the topic of answers to requests."""

TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets on HALF and OP tell up to where all transactions are settled."""
CLIENT_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"
TOOLS_CONSUMER: Final = "TOOLS_CONSUMER"

NOT_SENDABLE: Final[frozenset[str]] = frozenset({SCHEDULE, TIMER, HALF, OP, PARKED, SELF_TEST, OFFSET_MOVED})
"""Topics to which no client may send (the answer is NO_PERMISSION)."""

TRANSACTION_TOPICS: Final = frozenset({HALF, OP, PARKED})
"""Topics with undecided messages. Only tools may read them, consumer groups may not (X5)."""


class Holds(enum.Enum):
    """What lies in a topic of the system, and so whose rights decide who may read it."""

    NOTHING = "no messages of users"
    WAITING = "messages of users that wait; each names its topic in REAL_TOPIC"
    FAILED = "messages of users that failed; each names its topic in RETRY_TOPIC"
    TRACES = "records of clients about messages; each names the topics of these messages"
    REPLIES = "answers of users to requests, which name no topic"
    NOTES = "what brokers note for themselves; names of topics, no bodies"


SYSTEM_TOPICS: Final[Mapping[str, Holds]] = {
    HALF: Holds.WAITING,
    OP: Holds.NOTES,
    PARKED: Holds.WAITING,
    SCHEDULE: Holds.WAITING,
    TIMER: Holds.WAITING,
    TRACE: Holds.TRACES,
    AUTO_CREATE: Holds.NOTHING,
    SELF_TEST: Holds.NOTHING,
    BENCHMARK: Holds.NOTHING,
    OFFSET_MOVED: Holds.NOTES,
}
"""Every topic of the system, by its name. One that is missing here fails ``tests/access/test_system_topics.py``."""
SYSTEM_PREFIXES: Final[Mapping[str, Holds]] = {
    REVIVE_PREFIX: Holds.NOTES,
    RETRY_PREFIX: Holds.FAILED,
    DEAD_LETTER_PREFIX: Holds.FAILED,
}
"""The same of those whose name has a group or a cluster behind this."""
SYSTEM_SUFFIXES: Final[Mapping[str, Holds]] = {REPLY_SUFFIX: Holds.REPLIES}
"""The same of those whose name has a cluster before this."""


@lru_cache(maxsize=4096)
def holds(topic: str) -> Holds | None:
    """What lies in a topic of the system; None for a topic of an application."""
    known = SYSTEM_TOPICS.get(topic)
    if known is not None:
        return known
    for prefix, of_prefix in SYSTEM_PREFIXES.items():
        if topic.startswith(prefix):
            return of_prefix
    for suffix, of_suffix in SYSTEM_SUFFIXES.items():
        if topic.endswith(suffix):
            return of_suffix
    return None


GROUP_MAX_LENGTH: Final = 120
_ALLOWED: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group


def pop_retry_topic(topic: str, group: str, *, v2: bool = False) -> str:
    """Where messages of ``topic`` go that ``group`` popped and did not acknowledge. Source: KeyBuilder."""
    return f"{RETRY_PREFIX}{group}{'+' if v2 else '_'}{topic}"


def normal_topic(topic: str, group: str) -> str:
    """The topic that a retry topic of POP of ``group`` belongs to; ``topic`` itself when it is none."""
    for separator in "+_":
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def check_topic(topic: object) -> None:
    """Raise MessageIllegal saying what is wrong with a topic name. Source: TopicValidator.validateTopic.

    ``object``: compiled code would refuse what a user passes in place of a text with a TypeError of its own.
    """
    if type(topic) is str:
        _check_topic(topic)
    else:  # it may be of a type that cannot be hashed for a cache
        _check_name("topic", topic, MAX_TOPIC_CHARACTERS)


@lru_cache(maxsize=4096)
def _check_topic(topic: str) -> None:
    _check_name("topic", topic, MAX_TOPIC_CHARACTERS)


def check_group(group: object) -> None:
    """Raise MessageIllegal saying what is wrong with a group name. Source: Validators.checkGroup."""
    _check_name("group", group, GROUP_MAX_LENGTH)


def _check_name(kind: str, name: object, limit: int) -> None:
    if not isinstance(name, str):
        raise MessageIllegal(f"the {kind} must be a text, not {shown(name)}")
    if not name or name.isspace():
        raise MessageIllegal(f"the {kind} is blank; give it a name")
    if len(name) > limit:
        raise MessageIllegal(f"the {kind} {name[:32]!r}... has {len(name)} characters; at most {limit} are allowed")
    if not _ALLOWED.fullmatch(name):
        raise MessageIllegal(
            f"the {kind} {name!r} contains characters that are not allowed; use letters, digits and % | - _"
        )
