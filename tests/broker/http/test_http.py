"""The HTTP endpoint over real sockets: its answers, and its protection against malicious clients."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.broker.door import Ground
from gantrymq.broker.http.door import HttpDoor
from gantrymq.broker.http.messages import Answer, HttpError, Request, answer, parse_target
from gantrymq.broker.http.server import HttpServer, Limits, is_local_name
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.outside import Outside
from gantrymq.demo.ports import free_port
from gantrymq.errors import StoreUnavailable
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.tools import ExplainTransaction
from gantrymq.runtime.addresses import is_loopback
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.limits import values
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.support.brokers import Cluster, broker_config, on_broker, until
from tests.support.connections import FakeLink
from tests.support.doors import http

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{}\x02"
Got = tuple[int, dict[str, str], Any]
"""Status, headers, JSON."""


def request(target: str, *, method: str = "GET", host: str = "127.0.0.1", more: str = "") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return int(head[0].split()[1]), headers


async def read_answer(reader: asyncio.StreamReader) -> Got:
    status, headers = await read_head(reader)
    body = await reader.readexactly(int(headers["content-length"]))
    assert headers["content-type"].startswith("application/json")
    return status, headers, json.loads(body)


class Client:
    def __init__(self, address: str) -> None:
        self._address = address

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self._address.rsplit(":", 1)
        return await asyncio.open_connection(host, int(port))

    async def exchange(self, sent: bytes) -> Got:
        """One answer on a connection of its own."""
        reader, writer = await self.connect()
        try:
            writer.write(sent)
            return await read_answer(reader)
        finally:
            writer.close()

    async def get(self, target: str) -> Got:
        return await self.exchange(request(target))


def served(
    work: Callable[[Client, HttpServer], Awaitable[None]],
    handle: Callable[[Request], Awaitable[Answer]] | None = None,
    limits: Limits | None = None,
) -> None:
    """Run ``work`` against an endpoint without a broker, which by default returns the question as its answer."""

    async def echo(asked: Request) -> Answer:
        return answer({"path": list(asked.path), "query": asked.query})

    async def run() -> None:
        server = HttpServer(TcpNetwork(), SystemClock(), handle or echo, limits)
        address = await server.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                await work(Client(address), server)
        finally:
            await server.close()

    asyncio.run(run())


# With a broker.


def test_requests_count_together_with_those_of_other_doors(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        client = Client(http(running.broker).address)
        assert (await client.get("/health"))[0] == 200
        running.broker.client_limits.change(values.Limits(requests_per_second=3))
        # A bucket of one second, whose rest is what earlier requests left; what a second brings is three.
        statuses = [(await client.get("/health"))[0] for _ in range(10)]
        assert 429 in statuses and statuses[0] == 200
        assert running.broker.client_limits.refused(Reason.REQUESTS) >= statuses.count(429)

    on_broker(work, tmp_path, http_port=free_port())


def test_it_is_alive_also_while_it_refuses_writes(tmp_path: Path) -> None:
    """A probe that started it again would not make room on the disk."""

    async def work(running: Cluster) -> None:
        client = Client(http(running.broker).address)
        assert (await client.get("/health"))[0] == 503
        status, _, reported = await client.get("/alive")
        assert (status, reported["status"]) == (200, "alive")
        assert (await client.get("/alive?x=1"))[0] == 400

    on_broker(work, tmp_path, http_port=free_port(), disk_space_warning_level_ratio=1)


def test_it_is_alive_before_its_broker_serves(tmp_path: Path) -> None:
    """The log may be read again for minutes after a crash."""

    async def work() -> None:
        config = LiveConfig(broker_config(tmp_path, http_port=free_port()))
        clock = SystemClock()
        outside = Outside(TcpNetwork(), clock, SystemRng(), OsDisk())
        door = HttpDoor(Ground(config, outside, ClientLimits(clock, config.network.limits)))
        await door.listen()
        try:
            assert (await Client(door.address).get("/alive"))[0] == 200
        finally:
            await door.close()

    asyncio.run(work())


def test_what_a_broker_answers(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        client = Client(http(running.broker).address)
        for key in ("ABC", "DEF", "a b/c"):
            await running.sent("Orders", properties=HALF.format(key))

        status, headers, reported = await client.get("/health")
        assert (status, reported["status"], reported["open_transactions"]) == (200, "ok", 3)
        assert (headers["cache-control"], reported["address"]) == ("no-store", running.broker.address)
        assert "/transactions/{id}" in (await client.get("/"))[2]["routes"]

        status, _, reported = await client.get("/transactions?state=open&limit=2&group=PG")
        assert [row["id"] for row in reported["transactions"]] == ["ABC", "DEF"] and reported["more"] is True
        assert (await client.get("/transactions?state=parked"))[2] == {"transactions": [], "more": False}
        assert (await client.get("/transactions?group=other"))[2]["transactions"] == []

        status, _, reported = await client.get("/transactions/ABC")
        assert status == 200
        by_request = await running.ask(RequestCode.EXPLAIN_TRANSACTION, ExplainTransaction(transaction_id="ABC"))
        assert without_time(reported) == without_time(json.loads(by_request.body)), "the same from both"
        assert (await client.get("/transactions/a%20b%2Fc"))[2][0]["id"] == "a b/c"

        for target, status, reason in (
            ("/transactions/XYZ", 404, "no transaction 'XYZ'"),
            ("/nothing", 404, "/transactions/{id}"),
            ("/transactions/a/b", 404, "there is nothing"),
            ("/transactions?state=lost", 400, "open or parked"),
            ("/transactions?limit=0", 400, "1 to 1000"),
            ("/transactions?limit=ten", 400, "1 to 1000"),
            ("/transactions?colour=red", 400, "unknown parameters: colour"),
            ("/health?deep=1", 400, "unknown parameters: deep"),
        ):
            found, _, reported = await client.get(target)
            assert (found, reported["error"]["status"]) == (status, status), target
            assert reason in reported["error"]["reason"], target

    on_broker(work, tmp_path, http_port=free_port())


def without_time(reported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove ages and other relative times, which differ from one request to the next."""
    return [{**one, "age_ms": 0, "next_check_in_ms": 0, "next_check_at": 0, "why": ""} for one in reported]


def test_a_store_that_refuses_writes_is_not_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(running: Cluster) -> None:
        running.broker.store._writer.stop(StoreUnavailable("the disk is full"))
        status, _, reported = await Client(http(running.broker).address).get("/health")
        assert status == 503 and "disk is full" in reported["reason"]

    on_broker(work, tmp_path, http_port=free_port())


def test_without_the_setting_nothing_listens_and_a_port_in_use_stops_nobody(tmp_path: Path) -> None:
    async def without(running: Cluster) -> None:
        assert running.broker.door("http") is None

    on_broker(without, tmp_path / "without")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        async def work(running: Cluster) -> None:
            assert not http(running.broker).address
            await running.sent("Orders")

        on_broker(work, tmp_path / "taken", http_port=taken.getsockname()[1])


# Connections.


def test_many_requests_on_one_connection_are_answered_in_order() -> None:
    async def work(client: Client, server: HttpServer) -> None:
        reader, writer = await client.connect()
        writer.write(request("/one?a=1") + request("/two", method="PUT") + request("/three"))
        assert (await read_answer(reader))[2] == {"path": ["one"], "query": {"a": "1"}}
        status, headers, _ = await read_answer(reader)
        assert (status, headers["allow"]) == (405, "GET, HEAD")
        assert (await read_answer(reader))[2]["path"] == ["three"]
        writer.write(request("/last", more="Connection: close\r\n"))
        assert (await read_answer(reader))[2]["path"] == ["last"]
        assert await reader.read() == b"", "and then it hangs up"
        writer.close()

    served(work)


@pytest.mark.parametrize(
    ("target", "host"), [("/one?a=1", "127.0.0.1"), ("/?x", "127.0.0.1"), ("/", "evil.example")]
)  # fmt: skip
def test_head_answers_as_get_without_a_body(target: str, host: str) -> None:
    async def work(client: Client, server: HttpServer) -> None:
        expected, headers, _ = await client.exchange(request(target, host=host))
        reader, writer = await client.connect()
        writer.write(request(target, method="HEAD", host=host) * 2)
        assert await read_head(reader) == (expected, headers)
        assert await read_head(reader) == (expected, headers)
        writer.write(request("/after"))
        assert (await read_answer(reader))[2]["path"] == ["after"], "the connection can be used again"
        writer.write(request(target, method="HEAD", host=host, more="Connection: close\r\n"))
        assert (await read_head(reader))[0] == expected
        assert await reader.read() == b"", "nothing follows the headers"
        writer.close()

    served(work)


def test_a_head_request_that_is_refused_gets_no_body_either() -> None:
    async def work(client: Client, server: HttpServer) -> None:
        reader, writer = await client.connect()
        writer.write(request("/", method="HEAD", more="Expect: 100-continue\r\nContent-Length: 5\r\n"))
        assert (await read_head(reader))[0] == 417
        assert await reader.read() == b""
        writer.close()

    served(work)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x00\x01\x02 nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 505),
        (b"GET /" + b"a" * 20_000, 431),
        (request("/x?%ff=1"), 400),
        (request("/x?a=1&a=2"), 400),
        (request("/x?noequals"), 400),
        (request("/%ff"), 400),
        (request("/", more="Expect: 100-continue\r\nContent-Length: 5\r\n"), 417),
        (request("/", method="POST", more="Content-Length: 3\r\n") + b"abc", 405),
        (request("/", more="Content-Length: 100000\r\n") + b"x" * 100_000, 413),
        (request("/", more="Transfer-Encoding: nonsense\r\n"), 501),
        (request("/", method="BREW"), 405),
        (request("/", host="evil.example"), 403),
        (request("/", host="evil.example:80"), 403),
        (request("/", host="[::1]:80"), 200),
        (request("/", host="localhost"), 200),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_nonsense_is_answered_with_what_is_wrong(sent: bytes, status: int) -> None:
    async def work(client: Client, server: HttpServer) -> None:
        found, _, reported = await client.exchange(sent)
        assert found == status
        assert status == 200 or reported["error"]["reason"]
        assert (await client.get("/after"))[0] == 200, "others are served"

    served(work)


def test_who_is_too_slow_is_told_so_and_cut_off() -> None:
    async def work(client: Client, server: HttpServer) -> None:
        reader, writer = await client.connect()
        writer.write(b"GET / HTTP/1.1\r\nHo")
        assert (await read_answer(reader))[0] == 408
        assert await reader.read() == b""
        silent, other = await client.connect()
        assert await silent.read() == b"", "who says nothing is told nothing"
        reader, third = await client.connect()
        third.write(request("/"))
        assert (await read_answer(reader))[0] == 200
        assert await reader.read() == b"", "an idle connection is closed"
        for one in (writer, other, third):
            one.close()
        await until(lambda: not server._connections)

    served(work, limits=Limits(request_seconds=0.3))


def test_who_does_not_read_its_answers_is_cut_off() -> None:
    async def large(asked: Request) -> Answer:
        return answer("x" * 10_000_000)

    async def work(client: Client, server: HttpServer) -> None:
        _, writer = await client.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request("/", more="Connection: close\r\n"))
        await until(lambda: bool(server._connections))
        await until(lambda: not server._connections)
        writer.close()

    served(work, large, Limits(request_seconds=0.5))


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    async def never(asked: Request) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    async def work(client: Client, server: HttpServer) -> None:
        status, _, reported = await client.get("/")
        assert status == 503 and "too long" in reported["error"]["reason"]

    served(work, never, Limits(answer_seconds=0.2))


def test_more_connections_than_allowed_are_told_to_come_back() -> None:
    async def work(client: Client, server: HttpServer) -> None:
        held = [await client.connect() for _ in range(3)]
        await until(lambda: len(server._connections) == 3)
        status, _, reported = await client.exchange(b"")
        assert status == 503 and "too many" in reported["error"]["reason"]
        for _, writer in held:
            writer.close()
        await until(lambda: not server._connections)
        assert (await client.get("/"))[0] == 200

    served(work, limits=Limits(connections=3))


def test_a_defect_is_one_answer_and_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(asked: Request) -> Answer:
        if asked.path == ("store",):
            raise StoreUnavailable("closed")
        raise ZeroDivisionError("secret")

    async def work(client: Client, server: HttpServer) -> None:
        status, _, reported = await client.get("/")
        assert status == 500 and "secret" not in str(reported) and "secret" in caplog.text
        assert (await client.get("/store"))[0] == 503

    served(work, broken)


def test_a_client_that_leaves_while_it_is_answered_harms_nobody() -> None:
    left = asyncio.Event()

    async def slow(asked: Request) -> Answer:
        if asked.path == ("slow",):
            await left.wait()
        return answer(1)

    async def work(client: Client, server: HttpServer) -> None:
        _, writer = await client.connect()
        writer.write(request("/slow"))
        await until(lambda: any(connection._request for connection in server._connections))
        writer.transport.abort()
        left.set()
        assert (await client.get("/"))[0] == 200

    served(work, slow)


LINES = st.sampled_from(
    [b"GET / HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n", b"POST /x HTTP/1.0\r\n", b"Content-Length: 3\r\n", b"abc",
     b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"Connection: close\r\n", b"HEAD ? HTTP/1.1\r\n",
     b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", b"HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
     b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), LINES), min_size=1, max_size=12))
def test_any_bytes_are_answered_or_refused(parts: list[bytes]) -> None:
    async def echo(asked: Request) -> Answer:
        return answer(1)

    async def run() -> bytes:
        server = HttpServer(TcpNetwork(), SystemClock(), echo)
        connection, link = server._accept(), FakeLink()
        connection.connected(link)
        for part in parts:
            connection.received(part)
            await asyncio.sleep(0)
        connection.lost("closed")
        await server.close()
        return link.written

    said = asyncio.run(run())
    assert not said or said.startswith(b"HTTP/1.1 ")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["GET", "HEAD"]), st.sampled_from(["/", "/?x"])), min_size=1, max_size=8))
def test_pipelined_requests_are_all_answered_and_only_get_has_bodies(asked: list[tuple[str, str]]) -> None:
    async def one(asked: Request) -> Answer:
        return answer(1)

    async def run() -> bytes:
        server = HttpServer(TcpNetwork(), SystemClock(), one)
        connection, link = server._accept(), FakeLink()
        connection.connected(link)
        connection.received(b"".join(request(target, method=method) for method, target in asked))
        for _ in range(10 * len(asked)):
            await asyncio.sleep(0)
        await server.close()
        return link.written

    said = asyncio.run(run())
    for method, target in asked:
        head, _, said = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 " if target == "/?x" else b"HTTP/1.1 200 ")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        if method == "GET":
            json.loads(said[:length])
            said = said[length:]
    assert said == b""


# Parts.


def test_targets() -> None:
    assert parse_target("/") == Request(())
    assert parse_target("//host/a//b/?x=%20&y=") == Request(("a", "b"), {"x": " ", "y": ""})
    assert parse_target("http://localhost/a") == Request(("a",))
    with pytest.raises(HttpError):
        parse_target("http://[bad/")


def test_names_of_this_machine() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.org")
    for name in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "10.0.0.1"):
        assert is_local_name(name), name
    for name in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", ":80", "::"):
        assert not is_local_name(name) or name == "::", name
