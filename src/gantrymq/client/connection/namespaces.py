"""Namespaces: a prefix of topic and group names on the wire that the program does not see.

``ns%topic``, ``ns%group``, ``%RETRY%ns%group``, ``%DLQ%ns%group``; the system's own names stay as they are.
Source: NamespaceUtil; docs/protocol.md#names.
"""

from __future__ import annotations

from typing import Final

from gantrymq.message import system_topics

SEPARATOR: Final = "%"
_DERIVED: Final = (system_topics.RETRY_PREFIX, system_topics.DEAD_LETTER_PREFIX)
_OF_THE_SYSTEM: Final = frozenset(
    {
        *system_topics.NOT_SENDABLE,
        system_topics.TIMER,
        system_topics.TRACE,
        system_topics.AUTO_CREATE,
        system_topics.BENCHMARK,
        system_topics.TOOLS_CONSUMER,
        system_topics.CLIENT_INNER_PRODUCER,
    }
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "CID_RMQ_SYS_")


def with_namespace(namespace: str | None, name: str) -> str:
    """A topic or group as brokers know it."""
    if not namespace or name in _OF_THE_SYSTEM or name.startswith(_SYSTEM_PREFIXES):
        return name
    derived, bare = _split(name)
    prefix = namespace + SEPARATOR
    return name if bare.startswith(prefix) else f"{derived}{prefix}{bare}"


def without_namespace(namespace: str | None, name: str) -> str:
    """A topic or group as the program knows it."""
    if not namespace:
        return name
    derived, bare = _split(name)
    return derived + bare.removeprefix(namespace + SEPARATOR)


def _split(name: str) -> tuple[str, str]:
    derived = next((prefix for prefix in _DERIVED if name.startswith(prefix)), "")
    return derived, name[len(derived) :]
