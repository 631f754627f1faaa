"""The bodies of COPY_TABLES, our own request of replicas and proxies: which versions it has, and the tables that
have others.

Versions are texts that only the primary reads. The content of a table is the text of its file or answer, by its name.
"""

from __future__ import annotations

from msgspec import field

from gantrymq.protocol.body import Body


class KnownTables(Body, frozen=True, kw_only=True):
    """The request."""

    versions: dict[str, str] = field(default_factory=dict)
    only: list[str] | None = None
    """The tables that are wanted; None: all. A proxy wants the users."""


class CopiedTable(Body, frozen=True, kw_only=True):
    """One table."""

    version: str
    content: str


class CopiedTables(Body, frozen=True, kw_only=True):
    """The answer: those whose version is another one."""

    tables: dict[str, CopiedTable] = field(default_factory=dict)
