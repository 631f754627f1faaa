"""The record in a real etcd."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.replication.election.etcd import EtcdAccess, EtcdRecords
from gantrymq.broker.replication.election.record import Member, beaten, first
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, RemoteProtocolError, TimedOut, Unreachable
from gantrymq.runtime.tls.certificates import client_context
from gantrymq.runtime.tls.settings import ClientTls
from tests.kill.group import Etcd
from tests.runtime.tls.peers import client_tls, file
from tests.support.brokers import broker_config

pytestmark = pytest.mark.skipif(not Etcd.is_here(), reason="etcd is not installed (Debian: etcd-server)")
Test = Callable[..., Coroutine[Any, Any, None]]


def in_a_loop(test: Test) -> Callable[..., None]:
    """A test that waits."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


ME = Member(5, 1, "10.0.0.1:10911", "10.0.0.1:10912")


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    node = Etcd(tmp_path)
    node.start()
    yield node
    node.kill()


def records(*ports: int) -> EtcdRecords:
    return EtcdRecords(tuple(f"http://127.0.0.1:{port}" for port in ports), "c", "broker-a", 1.0)


@in_a_loop
async def test_it_is_written_only_if_nobody_else_has_written(etcd: Etcd) -> None:
    mine, theirs = records(etcd.port), records(etcd.port)
    assert await mine.read() == Held(None, NEVER)
    held = await mine.replace(Held(None, NEVER), first(ME))
    assert held is not None and await theirs.read() == held
    assert await theirs.replace(Held(None, NEVER), first(ME)) is None
    again = await theirs.replace(held, beaten(first(ME)))
    assert again is not None and again.revision > held.revision
    assert await mine.replace(held, first(ME)) is None
    assert await mine.read() == again


@in_a_loop
async def test_of_many_that_write_one_succeeds(etcd: Etcd) -> None:
    held = await records(etcd.port).replace(Held(None, NEVER), first(ME))
    assert held is not None
    written = await asyncio.gather(*(records(etcd.port).replace(held, beaten(first(ME))) for _ in range(20)))
    assert sum(one is not None for one in written) == 1


@in_a_loop
async def test_a_node_that_is_away_is_passed_over(etcd: Etcd) -> None:
    several = records(free_port(), etcd.port)
    held = await several.replace(Held(None, NEVER), first(ME))
    assert held is not None and await several.read() == held


@in_a_loop
async def test_a_silent_node_is_not_asked_to_write_twice(etcd: Etcd) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    silent = server.sockets[0].getsockname()[1]
    with pytest.raises((TimedOut, Unreachable)):
        await records(silent, etcd.port).replace(Held(None, NEVER), first(ME))
    assert await records(silent, etcd.port).read() == Held(None, NEVER)
    server.close()


@in_a_loop
async def test_nobody_there_and_somebody_else_are_said() -> None:
    with pytest.raises(Unreachable):
        await records(free_port()).read()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    with pytest.raises(RemoteProtocolError, match="does not answer as etcd does"):
        await records(server.sockets[0].getsockname()[1]).read()
    server.close()


# ---- with users


def tell(etcd: Etcd, path: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
    """As its operator."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{etcd.port}/v3/{path}", json.dumps(body).encode(), {"Authorization": token} if token else {}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def as_root(etcd: Etcd) -> str:
    return str(tell(etcd, "auth/authenticate", {"name": "root", "password": "r"})["token"])


KEY = "/gantrymq/c/broker-a/primary"


def with_users(etcd: Etcd) -> None:
    """``root``, who may do everything; ``gantrymq``, who may do what a broker needs; ``other``, who may do nothing."""
    for name, password in (("root", "r"), ("gantrymq", "g"), ("other", "o")):
        tell(etcd, "auth/user/add", {"name": name, "password": password})
    tell(etcd, "auth/role/add", {"name": "broker"})
    grant = {"name": "broker", "perm": {"permType": "READWRITE", "key": b64(KEY)}}
    tell(etcd, "auth/role/grant", grant)
    tell(etcd, "auth/user/grant", {"user": "gantrymq", "role": "broker"})
    tell(etcd, "auth/user/grant", {"user": "root", "role": "root"})
    tell(etcd, "auth/enable", {})


def as_user(etcd: Etcd, folder: Path, name: str, password: str) -> EtcdRecords:
    path = folder / f"password of {name}"
    path.write_text(f"{password}\n")
    return EtcdRecords((f"http://127.0.0.1:{etcd.port}",), "c", "broker-a", 2.0, EtcdAccess(name, str(path)))


@pytest.mark.slow
@in_a_loop
async def test_a_user_of_etcd_reads_and_writes_and_ended_tokens_are_renewed(etcd: Etcd, tmp_path: Path) -> None:
    with_users(etcd)
    mine = as_user(etcd, tmp_path, "gantrymq", "g")
    held = await mine.replace(Held(None, NEVER), first(ME))
    assert held is not None and await mine.read() == held
    etcd.kill()
    etcd.start()  # it knows none of its tokens any more
    again = await mine.replace(held, beaten(first(ME)))
    assert again is not None
    tell(etcd, "auth/user/add", {"name": "new", "password": "n"}, as_root(etcd))  # whoever came before is too old now
    assert await mine.read() == again
    tell(etcd, "auth/user/changepw", {"name": "gantrymq", "password": "changed"}, as_root(etcd))
    (tmp_path / "password of gantrymq").write_text("changed")
    assert await mine.read() == again, "the file is read with each token"


@pytest.mark.slow
@in_a_loop
async def test_who_may_not_use_etcd_is_told_what_to_do(etcd: Etcd, tmp_path: Path) -> None:
    with pytest.raises(RemoteProtocolError, match="remove etcdUser"):
        await as_user(etcd, tmp_path, "gantrymq", "g").read()
    with_users(etcd)
    for records_of, words in (
        (records(etcd.port), "set etcdUser"),
        (as_user(etcd, tmp_path, "gantrymq", "wrong"), "does not know the user gantrymq by this password"),
        (as_user(etcd, tmp_path, "nobody", "g"), "does not know the user nobody by this password"),
        (as_user(etcd, tmp_path, "other", "o"), "etcdctl role grant-permission"),
    ):
        with pytest.raises(RemoteProtocolError, match=words):
            await records_of.read()
        with pytest.raises(RemoteProtocolError, match=words):
            await records_of.replace(Held(None, NEVER), first(ME))


# ---- with certificates


@pytest.mark.slow
@in_a_loop
async def test_etcd_with_an_authority_of_its_own_that_asks_for_certificates(tmp_path: Path) -> None:
    shown = client_tls(cert_path=file("client.pem"), key_path=file("client.key"))
    options = ("--cert-file", file("server.pem"), "--key-file", file("server.key"),
               "--client-cert-auth", "--trusted-ca-file", file("authority.pem"))  # fmt: skip
    etcd = Etcd(tmp_path, *options, tls=client_context(shown))
    etcd.start()

    def known_by(tls: ClientTls) -> EtcdRecords:
        return EtcdRecords((f"https://127.0.0.1:{etcd.port}",), "c", "broker-a", 2.0, EtcdAccess(tls=tls))

    try:
        held = await known_by(shown).replace(Held(None, NEVER), first(ME))
        assert held is not None and await known_by(shown).read() == held
        for wrong in (
            client_tls(),  # shows none
            client_tls(cert_path=file("unknown.pem"), key_path=file("unknown.key")),  # of another authority
            ClientTls(cert_path=file("client.pem"), key_path=file("client.key")),  # does not know the server's
        ):
            with pytest.raises(Unreachable):
                await known_by(wrong).read()
    finally:
        etcd.kill()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"etcd_user": "gantrymq"}, "etcdUser and etcdPasswordFile belong together"),
        ({"etcd_cert_path": "a.pem"}, "etcdCertPath and etcdKeyPath belong together"),
        ({"etcd_trust_cert_path": "a.pem", "etcd_addr": "10.0.0.1:2379"}, "write https:// before each"),
    ],
)
def test_settings_of_etcd_that_cannot_work_are_named(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        broker_config(tmp_path, **settings)


def test_files_that_cannot_be_read_are_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read etcdPasswordFile"):
        EtcdRecords(("http://127.0.0.1:1",), "c", "n", 1.0, EtcdAccess("u", str(tmp_path / "nothing")))
    with pytest.raises(ConfigError, match="cannot read the trusted certificates"):
        tls = ClientTls(trust_cert_path=str(tmp_path / "nothing"))
        EtcdRecords(("https://127.0.0.1:1",), "c", "n", 1.0, EtcdAccess(tls=tls))
