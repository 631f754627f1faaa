"""What a replica of ours takes beside the log in one question: the tables that have changed since it asked last.
A proxy takes the users so."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.registries.registries import Registries

TOPICS, GROUPS, OFFSETS, DELAYS, MODES, ORDER, USERS = (
    "topics", "groups", "offsets", "delays", "requestModes", "orderInfo", "users",
)  # fmt: skip
"""The names of the tables."""
ANSWER_CHARACTERS: Final = 2_000_000
"""When an answer has so many, the other tables come with the next one."""
Texts = Mapping[str, Callable[[], str]]
"""The content of small tables, by their names."""


class TableCopy(NamedTuple):
    """One table. Only the primary reads the version."""

    version: str
    content: str


class TableCopies:
    """Of a primary."""

    def __init__(self, registries: Registries, delays: Callable[[], dict[str, Any]], small: Texts) -> None:
        """``small``: tables that are short enough to be compared as a whole each time."""
        self._registries: Final = registries
        self._delays = delays
        self._small = small

    def changed(
        self, known: Mapping[str, str], users: Callable[[], str] | None, only: Container[str] | None = None
    ) -> dict[str, TableCopy]:
        """By name, those whose version is not the one that is ``known``. ``users``: the file of users and policies, for
        somebody who may have it. ``only``: the tables that are wanted; None: all."""
        registries = self._registries
        versions: dict[str, tuple[str, Callable[[], str]]] = {
            TOPICS: (repr(registries.topics.version), lambda: registries.topics.encoded_table().decode()),
            GROUPS: (repr(registries.groups.version), lambda: registries.groups.table().encode().decode()),
            OFFSETS: (repr(registries.offsets.version), lambda: pretty(registries.offsets.content())),
        }
        compared = {**self._small, DELAYS: lambda: pretty(self._delays()), **({USERS: users} if users else {})}
        for name, text in compared.items():
            if only is None or name in only:
                versions[name] = _compared(text())
        tables: dict[str, TableCopy] = {}
        size = 0
        for name, (version, content) in versions.items():
            if (only is None or name in only) and known.get(name) != version and size < ANSWER_CHARACTERS:
                tables[name] = TableCopy(version, content())
                size += len(tables[name].content)
        return tables


def _compared(text: str) -> tuple[str, Callable[[], str]]:
    return f"{crc32(text.encode()):08x}-{len(text)}", lambda: text
