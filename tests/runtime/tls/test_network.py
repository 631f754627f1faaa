"""Connections with TLS and without, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvloop

import gantrymq
from gantrymq.errors import Unreachable
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.limits.values import Limits
from gantrymq.runtime.tls import network
from gantrymq.runtime.tls.settings import ClientAuth, ClientTls, TlsMode
from tests.runtime.tls.peers import ENFORCING, Keeper, Server, client_side, client_tls, file, server_tls

LARGE = 5_000_000


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_bytes_arrive_as_they_were_written(run: Any) -> None:
    data = random.Random(7).randbytes(LARGE)

    async def test() -> None:
        async with Server(server_tls(mode=ENFORCING)) as server:
            receiver = Keeper()
            link = await server.connect(client_tls(), receiver)
            for start in range(0, LARGE, 700_001):
                link.write(data[start : start + 700_001])
            assert await receiver.until(LARGE) == data
            link.close()
            await (await server.first()).ended.wait()
            assert link.peer == server.accepted[0].link.local  # type: ignore[union-attr]

    run(test())


def test_what_was_written_before_close_arrives() -> None:
    async def test() -> None:
        async with Server(server_tls(), answer=None) as server:
            link = await server.connect(client_tls(), Keeper())
            link.write(b"x" * LARGE)
            link.close()
            link.write(b"behind the end")
            other = await server.first()
            assert await other.until(LARGE) == b"x" * LARGE
            await other.ended.wait()
            assert len(other.got) == LARGE

    asyncio.run(test())


@pytest.mark.parametrize("settings", [None, client_tls()], ids=["plain", "tls"])
def test_a_permissive_port_takes_both(settings: ClientTls | None) -> None:
    async def test() -> None:
        async with Server(server_tls()) as server:
            receiver = Keeper()
            link = await server.connect(settings, receiver)
            link.write(b"\0\0\0\1x")
            assert await receiver.until(5) == b"\0\0\0\1x"
            link.close()

    asyncio.run(test())


def test_an_enforcing_port_refuses_plain_connections(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Server(server_tls(mode=ENFORCING)) as server:
            receiver = Keeper()
            link = await server.connect(None, receiver)
            link.write(b"\0\0\0\1x")
            await receiver.ended.wait()
            assert not server.accepted

    asyncio.run(test())
    assert "it does not use TLS, and tls.server.mode is enforcing" in caplog.text


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (client_tls(trust_cert_path=file("stranger.pem")), "certificate of the other side is not accepted"),
        (ClientTls(), "certificate of the other side is not accepted"),
    ],
)
def test_a_server_that_is_not_trusted_is_refused(settings: ClientTls, reason: str) -> None:
    async def test() -> None:
        async with Server(server_tls()) as server:
            with pytest.raises(Unreachable, match=reason):
                await server.connect(settings, Keeper())
            assert not server.accepted

    asyncio.run(test())


def test_any_certificate_is_accepted_where_that_is_asked_for() -> None:
    async def test() -> None:
        async with Server(server_tls()) as server:
            (await server.connect(ClientTls(verify=False), Keeper())).close()

    asyncio.run(test())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda link, data: link.write(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "the other side does not use TLS"),
        (
            lambda link, data: link.close(),
            r"ended before both sides agreed on TLS \(closed\); if that port takes no TLS",
        ),
    ],
)
def test_a_server_without_tls_is_named(answer: Any, said: str) -> None:
    async def test() -> None:
        async with Server(None, answer) as server:
            with pytest.raises(Unreachable, match=said):
                await server.connect(client_tls(), Keeper())

    asyncio.run(test())


def test_a_server_that_says_nothing_is_given_up() -> None:
    async def test() -> None:
        async with Server(None, answer=None) as server:
            with pytest.raises(Unreachable, match=r"no agreement on TLS within 0\.1 s"):
                await client_side(client_tls()).connect("127.0.0.1", server.port, Keeper(), 0.1)
            await (await server.first()).ended.wait()

    asyncio.run(test())


CERTIFIED = client_tls(cert_path=file("client.pem"), key_path=file("client.key"))
UNKNOWN = client_tls(cert_path=file("unknown.pem"), key_path=file("unknown.key"))


@pytest.mark.parametrize(
    ("auth", "settings", "let_in"),
    [
        (ClientAuth.REQUIRE, CERTIFIED, True),
        (ClientAuth.REQUIRE, client_tls(), False),
        (ClientAuth.REQUIRE, UNKNOWN, False),
        (ClientAuth.OPTIONAL, CERTIFIED, True),
        (ClientAuth.OPTIONAL, client_tls(), True),
        (ClientAuth.OPTIONAL, UNKNOWN, False),
    ],
)
def test_certificates_of_clients(
    auth: ClientAuth, settings: ClientTls, let_in: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        async with Server(server_tls(client_auth=auth, trust_cert_path=file("authority.pem"))) as server:
            receiver = Keeper()
            link = await server.connect(settings, receiver)  # with TLS 1.3 a client learns later what the server thinks
            link.write(b"hello")
            if let_in:
                assert await receiver.until(5) == b"hello"
                link.close()
            else:
                await receiver.ended.wait()
                assert not server.accepted and not receiver.got
                assert receiver.reason != "closed"

    asyncio.run(test())
    assert ("no TLS: " in caplog.text) is not let_in


@pytest.mark.pure("a time limit is replaced, which is a constant of the compiled module")
def test_a_handshake_that_takes_too_long_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(network, "HANDSHAKE_SECONDS", 0.05)
    monkeypatch.setattr(network, "FIRST_BYTE_SECONDS", 0.05)
    caplog.set_level(logging.INFO)

    async def test() -> None:
        async with Server(server_tls()) as server:
            for first in (b"", b"\x16", b"\x16\x03\x01\x02\x00"):
                receiver = Keeper()
                link = await server.connect(None, receiver)
                if first:
                    link.write(first)
                await receiver.ended.wait()
            assert not server.accepted

    asyncio.run(test())
    assert caplog.text.count("the handshake took too long") == 2
    assert caplog.text.count("it sent nothing") == 1


def test_whatever_a_client_sends_the_port_goes_on() -> None:
    """Random bytes in place of a handshake, and a real one that is cut or changed at every place."""
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    rng = random.Random(seed)
    hello = ssl.MemoryBIO()
    beginning = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        beginning.do_handshake()
    first = hello.read()

    def attempts() -> list[bytes]:
        cut = [first[:size] for size in range(1, len(first), 7)]
        changed = []
        for place in range(0, len(first), 7):
            data = bytearray(first)
            data[place] ^= 1 << rng.randrange(8)
            changed.append(bytes(data))
        return cut + changed + [b"\x16" + rng.randbytes(rng.randrange(400)) for _ in range(50)]

    async def test() -> None:
        async with Server(server_tls(mode=ENFORCING)) as server:
            for data in attempts():
                receiver = Keeper()
                link = await server.connect(None, receiver)
                link.write(data)
                link.close()
                await receiver.ended.wait()
            assert not server.accepted
            receiver = Keeper()
            link = await server.connect(client_tls(), receiver)
            link.write(b"alive")
            assert await receiver.until(5) == b"alive"
            link.close()

    asyncio.run(test())


def test_damaged_records_end_the_connection_with_a_reason() -> None:
    async def test() -> None:
        async with Server(server_tls()) as server:
            link: Any = await server.connect(client_tls(), Keeper())
            link.write(b"hello")
            other = await server.first()
            await other.until(5)
            link._below.write(b"\x17\x03\x03\x00\x20" + bytes(32))  # beside the encryption, as an attacker writes
            await other.ended.wait()
            assert "TLS failed" in other.reason
            assert other.got == b"hello"

    asyncio.run(test())


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, ENFORCING])
def test_connections_count_from_the_moment_they_are_accepted(mode: TlsMode) -> None:
    """Else a stranger could open any number of them and never begin the handshake."""

    async def test() -> None:
        client_limits = ClientLimits(SystemClock(), Limits(connections_of_client=3))
        async with Server(server_tls(mode=mode), gate=client_limits.connections) as server:
            silent, halfway, agreed = Keeper(), Keeper(), Keeper()
            links = [await server.connect(None, receiver) for receiver in (silent, halfway)]
            links[1].write(b"\x16\x03\x01")
            links.append(await server.connect(client_tls(), agreed))
            refused = Keeper()
            await server.connect(None, refused)
            await refused.ended.wait()
            assert client_limits.connections.count == 3 and len(server.accepted) == 1
            assert client_limits.refused(Reason.CONNECTIONS) == 1
            for link in links:
                link.close()
            for keeper in (silent, halfway, agreed):
                await keeper.ended.wait()
            async with asyncio.timeout(30):
                while client_limits.connections.count:
                    await asyncio.sleep(0.005)
            assert client_limits.refused(Reason.TLS) == 1, "the one in the middle of its handshake"

    asyncio.run(test())


def test_failed_handshakes_are_counted_once_each_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        client_limits = ClientLimits(SystemClock(), Limits())
        async with Server(server_tls(mode=ENFORCING), gate=client_limits.connections) as server:
            for data in (b"\0\0\0\1x", b"\x16garbage", b"\x16\x03\x01\x00\x05hello") * 5:
                receiver = Keeper()
                link = await server.connect(None, receiver)
                link.write(data)
                await receiver.ended.wait()
            assert client_limits.refused(Reason.TLS) == 15 and not server.accepted

    asyncio.run(test())
    assert len(caplog.records) == 1


def test_only_the_network_below_writes_to_descriptors() -> None:
    """What writes to a socket beside the TLS layer sends plain bytes. The command line and the record of what operators
    did write to pipes and files, and notices of a service go to the service manager of the same machine."""
    package = Path(gantrymq.__file__).parent
    writes = re.compile(r"os\.writev?\(|\.send(all|msg|file|to)\(|\.sock_send|\.fileno\(\)|get_extra_info\(\"socket\"")
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] not in ("cli", "demo") and writes.search(path.read_text())
    }
    assert found - {"admin/audit.py", "runtime/service_notices.py"} == {"runtime/network.py"}
