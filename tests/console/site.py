"""The console over a real broker, asked as a browser asks: for tests of its pages."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the console needs starlette")
pytest.importorskip("jinja2", reason="the console needs jinja2")

from gantrymq.console.app import opened
from gantrymq.console.identity import Role, User
from gantrymq.console.passwords import hashed
from gantrymq.console.settings import ConsoleSettings
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from tests.support.brokers import Cluster, cluster

PASSWORD = "correct horse"
HASH = hashed(PASSWORD, SystemRng(1))
USERS = {"vera": User(Role.VIEWER, HASH), "otto": User(Role.OPERATOR, HASH), "ada": User(Role.ADMIN, HASH)}
SETTINGS = ConsoleSettings(users=USERS, sample_seconds=1)
ORIGIN = {"Origin": "http://127.0.0.1:8088"}


@dataclass
class Browser:
    """One person's browser: cookies are kept, forms carry their token."""

    http: httpx.AsyncClient
    csrf: str = ""

    async def get(self, path: str, status: int = 200, **more: Any) -> str:
        answer = await self.http.get(path, **more)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.text

    async def post(self, path: str, status: int = 200, **fields: Any) -> str:
        answer = await self.http.post(path, data={"csrf": self.csrf, **fields}, headers=ORIGIN)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.text

    async def log_in(self, name: str) -> None:
        await self.post("/login", 303, name=name, password=PASSWORD)
        found = re.search(r'name="csrf" value="(\w+)"', await self.get("/"))
        assert found is not None
        self.csrf = found[1]


@contextlib.asynccontextmanager
async def browsers(name_servers: str, audit: Path, settings: ConsoleSettings) -> AsyncIterator[Callable[[], Browser]]:
    """A console over any cluster; gives what opens a browser on it."""
    clients: list[httpx.AsyncClient] = []
    async with opened(
        name_servers, settings, audit, SystemClock(), SystemRng(), only_local_names=True, secure_cookies=False
    ) as application:

        def new_browser() -> Browser:
            transport = httpx.ASGITransport(application, raise_app_exceptions=True)
            clients.append(httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8088"))
            return Browser(clients[-1])

        try:
            yield new_browser
        finally:
            for client in clients:
                await client.aclose()


@dataclass
class Site:
    """A console, its broker, and browsers."""

    running: Cluster
    audit: Path
    name_servers: str
    browser: Browser
    new_browser: Callable[[], Browser]

    async def half(self, key: str, group: str = "PG", topic: str = "Orders", body: bytes = b'{"order": 7}') -> None:
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02UNIQ_KEY\x01{key}\x02KEYS\x01k{key}\x02"
        await self.running.sent(topic, body, properties=properties, born_timestamp=SystemClock().wall_ms())


@contextlib.asynccontextmanager
async def site(root: Path, settings: ConsoleSettings = SETTINGS, **broker: Any) -> AsyncIterator[Site]:
    async with cluster(root / "store", with_name_server=True, **broker) as running:
        assert running.name_server is not None
        name_servers, audit = running.name_server.address, root / "audit.jsonl"
        async with browsers(name_servers, audit, settings) as new_browser:
            yield Site(running, audit, name_servers, new_browser(), new_browser)


def on_site(work: Callable[[Site], Awaitable[None]], root: Path, **more: Any) -> None:
    """Run ``work`` against a fresh console over a fresh broker."""

    async def bounded() -> None:
        async with asyncio.timeout(120), site(root, **more) as there:
            await work(there)

    asyncio.run(bounded())
