"""Fuzzes a broker and a name server with *sizes*: requests that are as large as a client may make them, and questions
about tables that have grown large. After each it says for how long the event loop stood still, because meanwhile every
other client waits.

    python -m tests.fuzz.sizes [--seed N] [--scale 1.0] [--only EXPRESSION]

Both servers are real processes. A request that does more than its share is found by its row of the printed table; the
figures are in docs/security.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from gantrymq.errors import GantryError
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.fuzz.measured import ADMIN
from tests.support.brokers import new_client

TIMEOUT_MS = 120_000
USERS = re.compile("users|policies")
"""Cases that are played against the broker with users."""
PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Turn:
    """What one case cost one server."""

    case: str
    server: str
    longest_ms: float
    """By the clock on the wall."""
    work_ms: float
    """In which the thread of the loop worked."""
    memory_mb: int
    answered: str


class Server:
    """A process of ``tests.fuzz.measured``."""

    def __init__(self, process: asyncio.subprocess.Process, address: str, http: str) -> None:
        self._process = process
        self.address = address
        self.http = http

    @classmethod
    async def start(cls, program: str, directory: Path, *more: str) -> Server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.fuzz.measured", program, str(directory), *more,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        told = json.loads(await process.stdout.readline() or b"null")
        if told is None:
            raise SystemExit(f"the {program} did not start")
        return cls(process, told["address"], told["http"])

    async def say(self, word: str) -> dict[str, float]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(word.encode() + b"\n")
        await self._process.stdin.drain()
        try:
            async with asyncio.timeout(PATIENCE_S):
                told: dict[str, float] = json.loads(await self._process.stdout.readline())
        except TimeoutError:
            self._process.kill()
            raise SystemExit(f"the loop of {self.address} stood still for more than {PATIENCE_S} s") from None
        return told

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@dataclass
class Bench:
    """Two servers, a client, and what a case needs to make its requests."""

    broker: Server
    guarded: Server
    """A broker with users."""
    names: Server
    client: RemotingClient
    admin: RemotingClient
    """A super user of the guarded broker."""
    rng: random.Random
    scale: float

    def size(self, number: int) -> int:
        return max(2, int(number * self.scale))

    async def ask(
        self,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        at: str = "",
        extra: dict[str, str] | None = None,
    ) -> Command | str:
        """The answer, or the name of the error."""
        try:
            return await self.client.call(
                at or self.broker.address, code, header, body, timeout_ms=TIMEOUT_MS, extra=extra
            )
        except GantryError as error:
            return type(error).__name__

    async def manage(self, code: int, header: Header, body: bytes = b"") -> Command | str:
        """The same of the guarded broker, by a super user."""
        try:
            return await self.admin.call(self.guarded.address, code, header, body, timeout_ms=TIMEOUT_MS)
        except GantryError as error:
            return type(error).__name__

    async def must(self, code: int, header: Header | None = None, body: bytes = b"", *, at: str = "") -> Command:
        """The answer, which has to be a success: a case builds on it."""
        answer = await self.ask(code, header, body, at=at)
        if isinstance(answer, str) or answer.code != ResponseCode.SUCCESS:
            raise SystemExit(f"{RequestCode(code).name}: {shown(answer)}")
        return answer

    async def http(self, path: str) -> str:
        """The status line of an answer of the HTTP endpoint."""
        host, port = self.broker.http.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.split(b"\r\n", 1)[0].decode() + f", {len(answer)} bytes"


def shown(answer: Command | str) -> str:
    """In a few words."""
    if isinstance(answer, str):
        return answer
    if answer.code == ResponseCode.SUCCESS:
        return f"ok, {len(answer.body)} bytes"
    return f"{answer.code}: {(answer.remark or '')[:90]}"


@contextlib.asynccontextmanager
async def bench(directory: Path, seed: int, scale: float) -> AsyncIterator[Bench]:
    names = await Server.start("nameserver", directory)
    broker = await Server.start("broker", directory, names.address)
    guarded = await Server.start("guarded", directory)
    client = new_client()
    admin = RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), account=ADMIN)
    try:
        yield Bench(broker, guarded, names, client, admin, random.Random(seed), scale)
    finally:
        await client.close()
        await admin.close()
        await broker.stop()
        await guarded.stop()
        await names.stop()


async def measure(seed: int, scale: float, only: str, directory: Path, *, told: bool = False) -> list[Turn]:
    """Play the cases in their order: later ones meet the tables that earlier ones have made large."""
    from tests.fuzz import user_size_cases  # noqa: F401 - adds its cases
    from tests.fuzz.size_cases import CASES

    turns: list[Turn] = []
    async with bench(directory, seed, scale) as on:
        for name, case in CASES.items():
            if not re.search(only, name):
                continue
            servers = (("broker", on.guarded if USERS.match(name) else on.broker), ("name server", on.names))
            for _, server in servers:
                await server.say("reset")
            answered = await case(on)
            await asyncio.sleep(0.05 * scale)  # what the servers do behind their answer
            for kind, server in servers:
                found = await server.say("read")
                turn = Turn(
                    name, kind, found["longest_s"] * 1000, found["work_s"] * 1000, int(found["memory_mb"]), answered
                )
                turns.append(turn)
                if told and (kind == "broker" or turn.work_ms > 20):
                    print(row(turn), flush=True)
    return turns


def row(turn: Turn) -> str:
    return (
        f"| {turn.case} | {turn.server} | {turn.longest_ms:,.0f} | {turn.work_ms:,.0f} | {turn.memory_mb} | "
        f"{turn.answered} |"
    )


def run(seed: int, scale: float, only: str = "", *, told: bool = False) -> list[Turn]:
    """All cases, or those whose name matches."""
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(measure(seed, scale, only, Path(directory), told=told))


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz.sizes", description=__doc__)
    arguments.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments.add_argument("--scale", type=float, default=1.0, help="of all sizes; 0.01 takes some seconds")
    arguments.add_argument("--only", default="", help="cases whose name matches this expression")
    chosen = arguments.parse_args()
    print(f"seed {chosen.seed}, scale {chosen.scale:g}")
    print("| case | server | longest turn (ms) | of work (ms) | memory (MB) | answer |\n|---|---|---|---|---|---|")
    turns = run(chosen.seed, chosen.scale, chosen.only, told=True)
    for server in ("broker", "name server"):
        of_server = [turn for turn in turns if turn.server == server]
        if of_server:
            worst = max(of_server, key=lambda turn: turn.work_ms)
            print(f"longest turn of the {server}: {worst.work_ms:,.0f} ms of work ({worst.case})")


if __name__ == "__main__":
    main()
