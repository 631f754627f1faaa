"""Through the HTTP door."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any, Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.runtime.network import Link
from gantrymq.testing import LocalCluster
from tests.broker.doors.asked import asks
from tests.broker.doors.who import HTTP_PORT, SECONDS, Who, on


class ByHttp:
    """A person, or a program that watches the broker."""

    name = "http"
    cannot: Final = {"": "the HTTP door only shows transactions, health and metrics; it changes nothing"}

    open_to_all: Final = ("health",)
    """What a load balancer asks; it says nothing about messages."""

    def __init__(self, cluster: LocalCluster, who: Who) -> None:
        self._cluster = cluster
        self._who = who

    @asks("administration.explaining.explanations.explain")
    def explain(self, transaction_id: str) -> list[dict[str, Any]]:
        status, body = self._get(f"/transactions/{transaction_id}")
        return [] if status == 404 else self._found(status, body)

    @asks("administration.explaining.explanations.undecided")
    def undecided(self) -> list[str]:
        found = self._found(*self._get("/transactions"))
        return [row["id"] for row in found["transactions"]]

    @asks("administration.figures.refusal", "administration.figures.undecided")
    def health(self) -> tuple[str, int]:
        found = self._found(*self._get("/health"))
        return found["status"], found["open_transactions"]

    def _found(self, status: int, body: str) -> Any:
        if status in (401, 403):
            raise Refused(Refusal.NOT_PERMITTED, body)
        assert status == 200, (status, body)
        return json.loads(body)

    def _get(self, path: str) -> tuple[int, str]:
        return on(self._cluster, self._got(path))

    async def _got(self, path: str) -> tuple[int, str]:
        asked = _Answered()
        link = await self._cluster._network.of(None).connect("127.0.0.1", HTTP_PORT, asked, SECONDS)
        who = "" if self._who.user is None else f"{self._who.user}:{self._who.secret}"
        signed = f"Authorization: Basic {b64encode(who.encode()).decode()}\r\n" if who else ""
        link.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{signed}Connection: close\r\n\r\n".encode())
        async with asyncio.timeout(SECONDS):
            await asked.over.wait()
        head, _, body = asked.data.partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body.decode()


class _Answered:
    """Keeps what comes until the connection ends."""

    def __init__(self) -> None:
        self.data = b""
        self.over = asyncio.Event()

    def connected(self, link: Link) -> None: ...

    def received(self, data: bytes) -> None:
        self.data += data

    def lost(self, reason: str) -> None:
        self.over.set()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...
