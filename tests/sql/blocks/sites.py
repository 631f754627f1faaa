"""All ways in."""

from __future__ import annotations

from typing import Final

from tests.sql.blocks.ways import Site
from tests.sql.blocks.ways_async import AsyncConnectionSite, AsyncSessionSite
from tests.sql.blocks.ways_connections import ConnectionSite
from tests.sql.blocks.ways_core import AsyncCoreSite, CoreSite
from tests.sql.blocks.ways_django import DjangoSite
from tests.sql.blocks.ways_drivers import AiomysqlSite, AsyncpgSite
from tests.sql.blocks.ways_sessions import SessionSite

WAYS: Final[dict[str, type[Site]]] = {
    kind.way: kind
    for kind in (
        ConnectionSite, SessionSite, CoreSite, DjangoSite, AsyncSessionSite, AsyncCoreSite, AsyncConnectionSite,
        AsyncpgSite, AiomysqlSite,
    )
}  # fmt: skip


def combinations(ways: list[str], databases: list[str]) -> list[tuple[str, str]]:
    """The ways in and databases that go together."""
    return [(way, kind) for way in ways for kind in databases if kind in WAYS[way].settings]
