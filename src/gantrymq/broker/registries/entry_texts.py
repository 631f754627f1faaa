"""The texts of the entries of a large table, for its file and for its answers.

A change of one entry costs the text of that entry. The rest of the file is put together from texts that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gantrymq.broker.registries.json_file import pretty

_INDENT = "\t\t"


class EntryTexts:
    """Remembers the text of each entry as long as the entry is the same object; entries are values that do not
    change."""

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[str, Any], str]) -> None:
        """``make``: the text of an entry, from its name and value."""
        self._make = make
        self._kept: dict[str, tuple[Any, str]] = {}

    def of(self, table: Mapping[str, Any]) -> list[str]:
        """The texts of a table, sorted by name."""
        kept = self._kept
        now: dict[str, tuple[Any, str]] = {}
        for name in sorted(table):
            value = table[name]
            known = kept.get(name)
            now[name] = known if known is not None and known[0] is value else (value, self._make(name, value))
        self._kept = now
        return [text for _, text in now.values()]


def file_texts() -> EntryTexts:
    """For a table in a file, as ``pretty`` writes it one level below the top."""
    return EntryTexts(
        lambda name, value: (
            _INDENT + msgspec.json.encode(name).decode() + ":" + pretty(msgspec.to_builtins(value), _INDENT)
        )
    )


def wire_texts() -> EntryTexts:
    """For a table in a body, as ``Body.encode`` writes it."""
    return EntryTexts(lambda name, value: f"{msgspec.json.encode(name).decode()}:{value.encode().decode()}")


def pretty_with(content: dict[str, Any], field: str, texts: list[str]) -> str:
    """``content`` as ``pretty`` writes it, with a table of these texts in its ``field``."""
    head, tail = pretty({**content, field: {}}).split(f'"{field}":{{}}', 1)
    if not texts:
        return f'{head}"{field}":{{}}{tail}'
    return "".join((head, f'"{field}":{{\n', ",\n".join(texts), "\n\t}", tail))


def body_with(encoded: bytes, field: str, texts: list[str]) -> bytes:
    """A body with a table of these texts in its ``field``, which is empty in ``encoded``."""
    head, tail = encoded.decode().split(f'"{field}":{{}}', 1)
    return "".join((head, f'"{field}":{{', ",".join(texts), "}", tail)).encode()
